//! Least squares through profile points, solved exactly (Galvatron fits the same curves iteratively).

/// `slope * x + intercept`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Per unit of x.
    pub slope: f64,
    /// At x = 0.
    pub intercept: f64,
}

impl Line {
    /// The line of least squares through `points`; `None` when they do not determine one.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let [intercept, slope] = polynomial(points)?;
        Some(Self { slope, intercept })
    }

    /// Its value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.slope * x + self.intercept
    }
}

/// Value at `x` of the parabola of least squares through `points`; `None` when they do not determine one.
pub fn parabola_at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    polynomial::<3>(points).map(|[c, b, a]| (a * x + b) * x + c)
}

/// Coefficients, lowest power first, of the polynomial of least squares. Abscissae are centred and scaled first, which
/// keeps the normal equations well conditioned for sequence lengths in the ten thousands.
fn polynomial<const N: usize>(points: &[(f64, f64)]) -> Option<[f64; N]> {
    if points.len() < N {
        return None;
    }
    let count = points.len() as f64;
    let centre = points.iter().map(|p| p.0).sum::<f64>() / count;
    let scale = points.iter().map(|p| (p.0 - centre).abs()).fold(0.0, f64::max);
    if scale == 0.0 {
        return None;
    }
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for &(x, y) in points {
        let u = (x - centre) / scale;
        let mut powers = [1.0; N];
        for i in 1..N {
            powers[i] = powers[i - 1] * u;
        }
        for i in 0..N {
            right[i] += powers[i] * y;
            for j in 0..N {
                normal[i][j] += powers[i] * powers[j];
            }
        }
    }
    let in_u = solve(normal, right)?;
    // p((x - centre) / scale), multiplied out by Horner's rule.
    let mut out = [0.0; N];
    for k in (0..N).rev() {
        let mut next = [0.0; N];
        for i in 0..N {
            if i + 1 < N {
                next[i + 1] += out[i] / scale;
            }
            next[i] -= out[i] * centre / scale;
        }
        next[0] += in_u[k];
        out = next;
    }
    Some(out)
}

/// Gaussian elimination with row pivoting.
fn solve<const N: usize>(mut a: [[f64; N]; N], mut b: [f64; N]) -> Option<[f64; N]> {
    for column in 0..N {
        let pivot = (column..N).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))?;
        if a[pivot][column].abs() < 1e-12 {
            return None;
        }
        a.swap(column, pivot);
        b.swap(column, pivot);
        let (upper, lower) = a.split_at_mut(column + 1);
        let head = &upper[column];
        for (row, values) in lower.iter_mut().enumerate() {
            let factor = values[column] / head[column];
            for (value, &above) in values.iter_mut().zip(head.iter()) {
                *value -= factor * above;
            }
            b[column + 1 + row] -= factor * b[column];
        }
    }
    for row in (0..N).rev() {
        for k in row + 1..N {
            b[row] -= a[row][k] * b[k];
        }
        b[row] /= a[row][row];
    }
    Some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_curve_give_the_curve_back() {
        let line = Line::through(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-12 && (line.intercept - 3.0).abs() < 1e-12);
        let points: Vec<_> =
            (1..9).map(|i| 4096.0 * f64::from(i)).map(|x| (x, 2e-8 * x * x + 3e-3 * x + 1.0)).collect();
        let at = parabola_at(&points, 10_000.0).unwrap();
        assert!((at / 33.0 - 1.0).abs() < 1e-12, "{at}");
    }

    #[test]
    fn too_few_distinct_points_give_no_curve() {
        assert_eq!(Line::through(&[(1.0, 5.0)]), None);
        assert_eq!(Line::through(&[(1.0, 5.0), (1.0, 6.0)]), None);
        assert_eq!(parabola_at(&[(1.0, 5.0), (2.0, 6.0), (1.0, 5.0)], 1.0), None);
    }

    #[test]
    fn scattered_points_give_the_line_of_least_squares() {
        // By hand: mean x 2.5, mean y 5.25, Sxy 8.5, Sxx 5.
        let line = Line::through(&[(1.0, 3.0), (2.0, 4.0), (3.0, 6.0), (4.0, 8.0)]).unwrap();
        assert!((line.slope - 1.7).abs() < 1e-12 && (line.intercept - 1.0).abs() < 1e-12);
    }
}
