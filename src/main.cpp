#include "cli/cli.h"

int main(int argc, char** argv) { return qwell::run_cli(argc, argv); }
