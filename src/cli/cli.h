#pragma once
// The command line: one file per subcommand, and the only place that reads flags and environment.

namespace qwell {

// Returns the process's exit status: 0 done, 1 an error (printed as "error: ..." on standard error), 2 wrong usage.
int run_cli(int argc, char** argv);

}  // namespace qwell
