//! Numbers as people write them.

/// `1234567` as `1,234,567`.
pub fn grouped(n: f64) -> String {
    let digits = format!("{:.0}", n.abs());
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if n < 0.0 {
        text.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A fraction as a percentage with one decimal, two below one percent.
pub fn percent(fraction: f64) -> String {
    let p = 100.0 * fraction;
    if p.abs() < 0.005 {
        return "0.0 %".to_owned();
    }
    if p.abs() < 1.0 { format!("{p:.2} %") } else { format!("{p:.1} %") }
}

/// Seconds without a prefix, for columns that are compared: four significant digits, at least milliseconds.
pub fn seconds(s: f64) -> String {
    match s.abs() {
        x if x >= 1000.0 => format!("{s:.0}"),
        x if x >= 100.0 => format!("{s:.1}"),
        x if x >= 10.0 => format!("{s:.2}"),
        _ => format!("{s:.3}"),
    }
}

/// A count of parameters: `70.6 B`.
pub fn short_count(n: f64) -> String {
    for (factor, unit) in [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")] {
        if n >= factor {
            let x = n / factor;
            return if x >= 100.0 { format!("{x:.0} {unit}") } else { format!("{x:.1} {unit}") };
        }
    }
    format!("{n:.0}")
}

/// Bytes as gigabytes of 1e9, for columns that are compared.
pub(super) fn gigabytes(bytes: f64) -> String {
    let gb = bytes / 1e9;
    if gb >= 1000.0 { grouped(gb) } else { format!("{gb:.1}") }
}

/// A power of ten: `3.2e+41`.
pub(super) fn power_of_ten(log10: f64) -> String {
    if log10 < 6.0 {
        return grouped(10f64.powf(log10).round());
    }
    format!("{:.1}e{}", 10f64.powf(log10.fract()), log10.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_written_by_people() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(-1000.0), "-1,000");
        assert_eq!(percent(0.0042), "0.42 %");
        assert_eq!(percent(0.483), "48.3 %");
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(seconds(115.93), "115.9");
        assert_eq!(short_count(70.56e9), "70.6 B");
        assert_eq!(short_count(671e9), "671 B");
        assert_eq!(gigabytes(85.04e9), "85.0");
        assert_eq!(power_of_ten(41.5), "3.2e41");
        assert_eq!(power_of_ten(2.0), "100");
    }
}
