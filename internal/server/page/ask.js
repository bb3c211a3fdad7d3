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
  const r = await fetch(path, { method, signal, cache: "no-store", credentials: "omit", headers: headers(method === "POST" ? { "Content-Type": "application/json" } : {}), body: body ? JSON.stringify(body) : undefined });
  const text = await r.text();
  let data = null;
  try { data = text ? JSON.parse(text) : null; } catch { /* not JSON */ }
  if (!r.ok) throw new Refusal(r.status, data?.code, data?.error || `forsd answers ${r.status}`);
  return data;
}

let last = ""; // the event that was heard last

const silence = 40_000; // forsd says something every 15 seconds

// follow hands on events until it is stopped. Where the connection is lost, or silent for
// too long, it says so, and comes back where it was.
export function follow({ on, connected, lost }) {
  let stopped = false, pause = 250, controller;
  (async () => {
    while (!stopped) {
      let quiet = 0;
      controller = new AbortController();
      const heard = () => { clearTimeout(quiet); quiet = setTimeout(() => controller.abort(), silence); };
      try {
        heard();
        const r = await fetch("/v1/events", { signal: controller.signal, cache: "no-store", credentials: "omit", headers: headers(last ? { "Last-Event-ID": last } : {}) });
        if (!r.ok) throw new Refusal(r.status, "", `forsd answers ${r.status}`);
        connected();
        pause = 250;
        const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) throw new Error("forsd ended the stream");
          heard();
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
        if (err instanceof Refusal && err.status < 500) pause = 5000; // the view says what is refused
        else if (!stopped) lost();
      }
      clearTimeout(quiet);
      if (stopped) return;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 5000);
    }
  })();
  return () => { stopped = true; controller.abort(); };
}
