//! Slurm: a batch file around the launch script of Megatron-LM.

use super::bundle::{Bundle, Lines};
use super::megatron;
use super::ranks;
use super::view::View;

/// The batch file, with the script that it starts.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = megatron::bundle(view);
    let mut s = Lines::default();
    s.put(format!("#SBATCH --nodes={}", view.nodes()), "");
    s.put("#SBATCH --ntasks-per-node=1", "");
    s.put(format!("#SBATCH --gpus-per-node={}", view.per_node()), "");
    s.put("#SBATCH --exclusive", "");
    s.put("#SBATCH --mem=0", "");
    if view.nodes() > 1 {
        s.put("#SBATCH --switches=1@1:00:00", "");
    }
    let mut text = format!("#!/bin/bash\n# {}\n", ranks::machines(view));
    text.push_str("# One task per node starts torchrun, which starts one rank per device; all of a node's memory; the nodes of one\n");
    text.push_str("# switch if it is free within the hour.\n");
    text.push_str(&s.text("", "#"));
    text.push_str(
        "\nexport MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n\
         srun bash -c 'NODE_RANK=$SLURM_NODEID bash megatron.sh'\n",
    );
    let own = bundle.files.split_off(0);
    bundle.file("launch.sbatch", text);
    bundle.files.extend(own);
    bundle
}
