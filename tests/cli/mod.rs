//! Runs the program as a user does.

#![allow(dead_code, reason = "every test file uses a part of it")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A question that is answered at once.
pub const SMALL: [&str; 8] = ["--model", "gpt2-xl", "--cluster", "h100x4", "--global-batch", "8", "--seq", "1024"];

/// The program with these arguments, free of what the environment says about colours.
pub fn espalier(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// What it says and how it ends.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let ran = Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// The one JSON object on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }

    /// The error object on standard error, whose keys are all there.
    pub fn error(&self) -> Value {
        let document: Value = serde_json::from_str(&self.err).unwrap_or_else(|e| panic!("{e}: {}", self.err));
        let error = document["error"].clone();
        for key in ["kind", "file", "field", "found", "expected", "help"] {
            assert!(error.get(key).is_some(), "{key} is missing in {error}");
        }
        error
    }
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Ran {
    Ran::of(espalier(arguments).output().unwrap())
}

/// Runs it with a text on standard input.
pub fn run_with(arguments: &[&str], input: &str) -> Ran {
    use std::io::Write;
    let mut child =
        espalier(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = input.to_owned();
    let mut stdin = child.stdin.take().unwrap();
    // A program that has seen enough does not read on.
    let writer = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::of(output)
}

/// A folder of this test's own, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The small question with more arguments.
pub fn small<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[command], &SMALL[..], more].concat()
}

/// Without what clocks say.
pub fn without_clocks(mut answer: Value) -> Value {
    let search = answer["search"].as_object_mut().unwrap();
    for clock in ["wall_s", "cpu_s", "first_plan_s"] {
        search.remove(clock);
    }
    answer
}
