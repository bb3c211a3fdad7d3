// Questions to forsd: answers as JSON, errors with forsd's own sentence, and its events.

export const token = {
  get: () => sessionStorage.getItem("token") || "",
  set: (t) => t ? sessionStorage.setItem("token", t) : sessionStorage.removeItem("token"),
};

const headers = (more = {}) => token.get() ? { ...more, Authorization: "Bearer " + token.get() } : more;

export class Refusal extends Error {
  constructor(status, code, text) { super(text); this.status = status; this.code = code; }
}

export async function ask(path, { method = "GET", body, signal } = {}) {
  const r = await fetch(path, { method, signal, cache: "no-store", credentials: "omit", headers: headers(body ? { "Content-Type": "application/json" } : {}), body: body ? JSON.stringify(body) : undefined });
  const text = await r.text();
  let data = null;
  try { data = text ? JSON.parse(text) : null; } catch { /* not JSON */ }
  if (!r.ok) throw new Refusal(r.status, data?.code, data?.error || `forsd answers ${r.status}`);
  return data;
}

// follow hands on events until it is stopped. Where the connection is lost it says so, and
// comes back where it was.
export function follow({ on, connected, lost }) {
  let last = "", stopped = false, pause = 250;
  const controller = new AbortController();
  (async () => {
    while (!stopped) {
      try {
        const r = await fetch("/v1/events", { signal: controller.signal, cache: "no-store", credentials: "omit", headers: headers(last ? { "Last-Event-ID": last } : {}) });
        if (!r.ok) throw new Refusal(r.status, "", `forsd answers ${r.status}`);
        connected();
        pause = 250;
        const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          rest += value;
          const parts = rest.split("\n\n");
          rest = parts.pop();
          for (const part of parts) {
            const e = {};
            for (const line of part.split("\n")) {
              const at = line.indexOf(":");
              if (at > 0) e[line.slice(0, at)] = line.slice(at + 1).trim();
            }
            if (e.id) last = e.id;
            if (e.event) on(e.event, e.data);
          }
        }
      } catch (err) {
        if (stopped) return;
      }
      lost();
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 5000);
    }
  })();
  return () => { stopped = true; controller.abort(); };
}
