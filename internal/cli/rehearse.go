package cli

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forsd/forsd/internal/command"
)

// rehearseCommand becomes the program that does the work.
func rehearseCommand() *cobra.Command {
	return command.Rehearse(func(cmd *cobra.Command, o *command.Rehearsal) error {
		program := command.FindFile(command.RehearsalProgram)
		if program == "" {
			return fmt.Errorf("%s is missing: install the package forsd-rehearsal", command.RehearsalProgram)
		}
		args := []string{program}
		cmd.Flags().Visit(func(f *pflag.Flag) { args = append(args, fmt.Sprintf("--%s=%s", f.Name, f.Value)) })
		return fmt.Errorf("%s: %w", program, syscall.Exec(program, append(args, "--", o.Dump), os.Environ()))
	})
}
