//! Launches of Megatron-LM: argument lines and scripts, and what they mean as a model, a job and a plan.

mod model;
mod plan;
mod software;

pub use model::{job, model_config};
pub use plan::{Imported, plan};
pub use software::{duties, software};

use super::shell::Script;
use crate::error::{InputError, Kind};
use crate::rules::megatron::{Launch, parse};
use std::collections::BTreeMap;

/// What a text says of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Arguments for the parser.
    pub words: Vec<String>,
    /// Environment that it sets.
    pub environment: BTreeMap<String, String>,
    /// Ranks in all, if it says.
    pub world: Option<u64>,
    /// The machines that an exported script names, e.g. `h100x8:8`.
    pub machines: Option<String>,
}

impl Text {
    /// Reads a script, or a line of arguments alone.
    ///
    /// # Errors
    /// An empty text, quotes that are not closed, a script that launches nothing.
    pub fn read(text: &str) -> Result<Self, InputError> {
        let text = text.trim_start_matches('\u{feff}');
        let empty = || InputError::new(Kind::Syntax).found("no argument at all").expected("arguments of Megatron-LM");
        if text.trim().is_empty() {
            return Err(empty());
        }
        if text.trim_start().starts_with("--") {
            return Ok(Self { words: parse::words(text)?, environment: BTreeMap::new(), world: None, machines: None });
        }
        let script = Script::parse(text)?;
        let python = |words: &Vec<String>| words.iter().position(|w| w.ends_with(".py"));
        let launch = script.commands.iter().rev().find_map(|words| python(words).map(|at| (words, at)));
        let (command, at) = launch.ok_or_else(|| {
            let error = InputError::new(Kind::Unsupported).found("a script that runs no .py file");
            error.expected("a line such as `torchrun .. pretrain_gpt.py --num-layers ..`")
        })?;
        let words = command[at + 1..].to_vec();
        if words.is_empty() {
            return Err(empty());
        }
        let world = ranks(&command[..at], &script);
        let machines = text.lines().find_map(|line| line.strip_prefix("# machines: ")).map(|m| m.trim().to_owned());
        Ok(Self { words, environment: script.environment, world, machines })
    }

    /// The launch, with `world` ranks unless the text says otherwise.
    ///
    /// # Errors
    /// As [`parse::parse`]; a world that is not known, or known twice.
    pub fn launch(&self, world: Option<u64>) -> Result<Launch, InputError> {
        let missing =
            || InputError::new(Kind::MissingField).at("--world").expected("the ranks in all, e.g. `--world 64`");
        let world = match (world, self.world) {
            (Some(asked), Some(said)) if asked != said => {
                let error = InputError::new(Kind::Inconsistent).at("--world").found(asked);
                return Err(error.expected(format!("{said}, as the script says")));
            }
            (asked, said) => asked.or(said).ok_or_else(missing)?,
        };
        let mut launch = parse::parse(&self.words, world)?;
        launch.environment = Some(self.environment.clone());
        Ok(launch)
    }
}

/// The number behind an option, as `--name value` or `--name=value`, dashes and underscores alike.
fn option(words: &[String], names: &[&str]) -> Option<u64> {
    words.iter().enumerate().find_map(|(i, word)| {
        let plain = word.replace('_', "-");
        let (name, attached) = match plain.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (plain, None),
        };
        if !names.contains(&name.as_str()) {
            return None;
        }
        attached.or_else(|| words.get(i + 1).cloned())?.parse().ok()
    })
}

/// Ranks that a launcher starts: torchrun's nodes times processes, else Slurm's tasks.
pub fn ranks(command: &[String], script: &Script) -> Option<u64> {
    let per_node = option(command, &["--nproc-per-node"]);
    let nodes = option(command, &["--nnodes"]);
    let slurm = |names: &[&str]| option(command, names).or_else(|| option(&script.sbatch, names));
    match (nodes, per_node) {
        (Some(nodes), Some(each)) => nodes.checked_mul(each),
        (None, Some(each)) => Some(each),
        _ => {
            let tasks = slurm(&["--ntasks", "-n"]);
            let product = || slurm(&["--nodes", "-N"])?.checked_mul(slurm(&["--ntasks-per-node", "--gpus-per-node"])?);
            tasks.or_else(product)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_says_ranks_environment_and_arguments() {
        let text = Text::read(
            "export CUDA_DEVICE_MAX_CONNECTIONS=1\nGPUS_PER_NODE=8\n\
             torchrun --nproc_per_node $GPUS_PER_NODE --nnodes=4 pretrain_gpt.py --num-layers 32 --bf16\n",
        )
        .unwrap();
        assert_eq!((text.world, text.words.len()), (Some(32), 3));
        let launch = text.launch(None).unwrap();
        assert_eq!((launch.world, launch.variable("CUDA_DEVICE_MAX_CONNECTIONS")), (Ok(32), Ok(Some("1"))));
        assert!(text.launch(Some(64)).is_err());
        let slurm =
            Text::read("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun python train.py --bf16\n").unwrap();
        assert_eq!(slurm.world, Some(16));
    }

    #[test]
    fn nothing_is_no_launch() {
        for bad in ["", "  \n", "#!/bin/bash\necho hello\n", "torchrun pretrain_gpt.py\n", "--num-layers '4"] {
            assert!(Text::read(bad).is_err(), "{bad:?}");
        }
        assert!(Text::read("--bf16").unwrap().launch(None).is_err());
    }
}
