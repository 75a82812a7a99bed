//! Plans in the words of the frameworks that run them.

pub mod accelerate;
pub mod bridge;
pub mod bundle;
pub mod deepspeed;
pub mod galvatron;
pub mod galvatron_plan;
pub mod legal;
pub mod megatron;
pub mod nanotron;
pub mod ranks;
pub mod slurm;
pub mod torchtitan;
pub mod view;

use bundle::Bundle;
use view::View;

/// What a plan can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Megatron-LM's script.
    Megatron,
    /// torchtitan's module and flags.
    Torchtitan,
    /// DeepSpeed's JSON.
    Deepspeed,
    /// accelerate's YAML.
    Accelerate,
    /// Galvatron's JSON.
    Galvatron,
    /// nanotron's YAML.
    Nanotron,
    /// Megatron-Bridge's attributes.
    Bridge,
    /// A Slurm batch file around Megatron-LM's script.
    Slurm,
}

/// The files of a plan in a form.
pub fn write(form: Form, view: &View<'_>) -> Bundle {
    match form {
        Form::Megatron => megatron::bundle(view),
        Form::Torchtitan => torchtitan::bundle(view),
        Form::Deepspeed => deepspeed::bundle(view),
        Form::Accelerate => accelerate::bundle(view),
        Form::Galvatron => galvatron_plan::bundle(view),
        Form::Nanotron => nanotron::bundle(view),
        Form::Bridge => bridge::bundle(view),
        Form::Slurm => slurm::bundle(view),
    }
}
