//! Where the numbers of a pool come from: the tables of this program where they are unchanged, else what the file says.

use super::{Device, Efficiency, Level, Pool, curves, devices, fabric, instances};

/// Publication, file or measurement, and when it was published or read (`YYYY-MM`; empty where nobody says).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where from.
    pub text: String,
    /// When.
    pub date: String,
}

impl Source {
    /// A source with its date.
    pub fn new(text: impl Into<String>, date: impl Into<String>) -> Self {
        Self { text: text.into(), date: date.into() }
    }
}

/// One of the curves of a device.
pub type Curve = fn(&Device) -> Efficiency;

/// What of a device.
#[derive(Debug, Clone, Copy)]
pub enum Of {
    /// Peaks, memory, memory bandwidth.
    Sheet,
    /// Plateau of a curve.
    Plateau(Curve),
    /// Half point of a curve.
    Half(Curve),
    /// Launch of a kernel.
    Launch,
}

/// Sources of the two kinds of numbers that a device's one line of source tells apart.
fn told(device: &Device) -> (&str, &str) {
    device.source.split_once("; efficiency: ").unwrap_or((&device.source, &device.source))
}

/// Where a number of `device` comes from.
pub fn of_device(device: &Device, of: Of) -> Source {
    let (sheet, efficiency) = told(device);
    let unchanged =
        |curve: Curve| devices::find(&device.name).is_ok_and(|known| curve(&known).half_at == curve(device).half_at);
    match of {
        Of::Sheet => Source::new(sheet, &device.date),
        Of::Plateau(_) => Source::new(efficiency, &device.date),
        Of::Half(curve) if unchanged(curve) => Source::new(curves::HALF_SOURCE, curves::DATE),
        Of::Half(_) => Source::new(efficiency, &device.date),
        Of::Launch if device.launch == curves::LAUNCH => Source::new(curves::LAUNCH_SOURCE, curves::DATE),
        Of::Launch => Source::new(sheet, &device.date),
    }
}

/// Where the rates of a level come from: a machine of the tables, or the cluster file.
pub fn of_rate(pool: &Pool, level: usize) -> Source {
    let Some(own) = pool.levels.get(level) else { return file() };
    let same = |known: &Level| known.name == own.name && known.per_device == own.per_device;
    let found = instances::names().find(|name| {
        let two = instances::pool(&format!("{name}:2"));
        two.is_ok_and(|p| p.device.name == pool.device.name && p.levels.iter().any(same))
    });
    found.map_or_else(file, |name| Source::new(format!("{}: {name}", instances::SOURCE), instances::DATE))
}

/// Where efficiency, latency and half point of a level come from: a kind of link of the tables, or the cluster file.
pub fn of_curve(level: &Level) -> Source {
    let same = |known: &&fabric::Fabric| {
        (known.efficiency, known.latency, known.half_at) == (level.efficiency, level.latency, level.half_at)
            && (known.name == level.name || known.source == fabric::Fabric::UNKNOWN.source)
    };
    fabric::ALL.iter().find(same).map_or_else(file, |known| Source::new(known.source, known.date))
}

fn file() -> Source {
    Source::new("the cluster file", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_numbers_name_the_tables_and_changed_ones_the_file() {
        let mut pool = instances::pool("h100x8:2").unwrap();
        assert!(of_rate(&pool, 0).text.contains("h100x8") && of_rate(&pool, 1).date == "2026-11");
        assert!(of_curve(&pool.levels[0]).text.contains("dgxc-benchmarking"));
        let gemm: fn(&Device) -> Efficiency = |d| d.gemm;
        assert_eq!(of_device(&pool.device, Of::Half(gemm)).text, curves::HALF_SOURCE);
        assert!(of_device(&pool.device, Of::Sheet).text.contains("stas00"));
        assert!(of_device(&pool.device, Of::Plateau(gemm)).text.contains("DGXC"));
        pool.levels[0].latency = pool.levels[0].latency * 2.0;
        pool.levels[1].per_device = pool.levels[1].per_device * 0.9;
        assert_eq!(of_curve(&pool.levels[0]), file());
        assert_eq!(of_rate(&pool, 1), file());
    }
}
