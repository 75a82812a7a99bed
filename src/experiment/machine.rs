//! The machine a race was run on, as far as Linux tells.

use serde::{Deserialize, Serialize};
use std::fs;

/// A machine and its state when a race began.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// Load averages of 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Share of the time since boot that the hypervisor gave to others.
    pub steal: Option<f64>,
    /// Kernel.
    pub kernel: Option<String>,
    /// Whether the program was built with debug assertions: its clocks mean less.
    pub debug_build: bool,
}

/// Looks.
pub fn look() -> Machine {
    let read = |path: &str| fs::read_to_string(path).ok();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = || {
        let text = read("/proc/meminfo")?;
        let kib: u64 = field(&text, "MemTotal")?.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    let load = || {
        let text = read("/proc/loadavg")?;
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        Some([numbers.next()?, numbers.next()?, numbers.next()?])
    };
    let steal = || {
        let text = read("/proc/stat")?;
        let ticks: Vec<f64> = text.lines().next()?.split_whitespace().skip(1).map_while(|t| t.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal (proc(5))
        let all: f64 = ticks.iter().take(8).sum();
        (all > 0.0).then(|| ticks.get(7).copied().unwrap_or(0.0) / all)
    };
    Machine {
        cpu: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory(),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").map(|g| g.trim().to_owned()),
        load: load(),
        steal: steal(),
        kernel: read("/proc/sys/kernel/osrelease").map(|k| k.trim().to_owned()),
        debug_build: cfg!(debug_assertions),
    }
}
