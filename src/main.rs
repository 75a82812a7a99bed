//! The command line: see `espalier --help`.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
