//! The command line: see `espalier --help`.

/// Threads hand solutions to each other all the time; this allocator lets one free what another made without waiting.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    espalier::cli::main()
}
