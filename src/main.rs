//! The command line: see `espalier --help`.

fn main() -> std::process::ExitCode {
    espalier::cli::main()
}
