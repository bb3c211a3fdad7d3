package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens, by which programs ask over TLS",
		Long: `A token lets a program, or a person with a browser, ask forsd over TLS with a role:
viewer, operator or administrator. It is shown once, when it is made; forsd keeps a
hash of it alone. These commands take an administrator.`,
	}
	cmd.AddCommand(tokenCreateCommand(), tokenListCommand(), tokenRevokeCommand())
	return cmd
}

func tokenCreateCommand() *cobra.Command {
	var role, out string
	life := api.DefaultTokenLife
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a token and print it, for the only time",
		Example: "  forsctl token create grafana --role viewer\n  forsctl token create ci --role operator --expires 720h --out ci.token",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := api.TokenRequest{Name: args[0], ExpiresSeconds: int64(life / time.Second)}
			if err := q.Role.UnmarshalText([]byte(role)); err != nil {
				return fmt.Errorf("--role: %w", err)
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				made, err := c.CreateToken(ctx, q)
				if err != nil {
					return err
				}
				if command.WantsJSON(cmd) {
					return command.PrintJSON(cmd, made)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "token %s, role %s, until %s:\n", made.Name, made.Role, command.Clock(made.Expires))
				if out != "" && out != "-" {
					return writeSecret(out, []byte(made.Secret+"\n"))
				}
				return command.WriteOut(cmd, "-", []byte(made.Secret+"\n"))
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", api.Viewer.String(), "viewer, operator or administrator")
	cmd.Flags().Var((*command.Duration)(&life), "expires", "how long it is valid, 366d at most")
	cmd.Flags().StringVar(&out, "out", "", "write it into this file, which only its owner may read")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{api.Viewer.String(), api.Operator.String(), api.Administrator.String()}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tokens that are valid",
		Example: "  forsctl token list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (api.TokenList, error) {
				tokens, err := c.Tokens(ctx)
				return api.TokenList{Tokens: tokens}, err
			}, func(w io.Writer, all api.TokenList) {
				fmt.Fprintln(w, "name\trole\tcreated\texpires\tby")
				for i := range all.Tokens {
					t := &all.Tokens[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, t.Role, command.Clock(t.Created), command.Clock(t.Expires), t.By)
				}
			})
		},
	}
}

func tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke NAME",
		Short:   "End a token at once",
		Example: "  forsctl token revoke grafana",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (*api.Token, error) { return c.RevokeToken(ctx, args[0]) },
				func(w io.Writer, was *api.Token) { fmt.Fprintf(w, "token %s is revoked\n", was.Name) })
		},
	}
}
