//! Domain moves on complete layer-wise plans: what local search and mutation change at a time.

use super::allele;
use super::fast::Choice;
use super::layerwise::LayerwiseSpace;
use crate::search::problem::{Allele, Moves};

impl Moves for LayerwiseSpace<'_> {
    type Solution = Choice;

    /// Set a run of like parts to one option; move a cut by one part; go to another task of the same frame or to a
    /// neighbouring number of micro-batches; give a part the option of the part before it.
    fn kinds(&self) -> u32 {
        4
    }

    fn neighbour(&self, x: &Choice, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<Choice> {
        let frame = self.fast(x.task as usize)?;
        let parts = &self.estimator.spine.parts;
        let mut y = x.clone();
        let pick = |random: &mut dyn FnMut() -> u64, n: usize| (random() % n.max(1) as u64) as usize;
        match kind {
            0 => {
                let start = pick(random, parts.len());
                let class = parts[start];
                let option = pick(random, frame.table().classes[class as usize].options.len()) as u16;
                let length = 1usize << pick(random, (parts.len() - start).ilog2() as usize + 1);
                (start..(start + length).min(parts.len()))
                    .filter(|i| parts[*i] == class)
                    .for_each(|i| y.options[i] = option);
            }
            1 => {
                if self.tasks[x.task as usize].split.is_some() || y.sizes.len() < 2 {
                    return None;
                }
                let cut = pick(random, y.sizes.len() - 1);
                let (from, to) = if random().is_multiple_of(2) { (cut, cut + 1) } else { (cut + 1, cut) };
                if y.sizes[from] < 2 {
                    return None;
                }
                y.sizes[from] -= 1;
                y.sizes[to] += 1;
            }
            2 => {
                let key = &self.tasks[x.task as usize];
                let (column, at) = self.outer.place(key.pipeline, key.micro_batches)?;
                let rows = &self.outer.columns[column].rows;
                let low = at.saturating_sub(1);
                let tasks = &rows[low + pick(random, (at + 2).min(rows.len()) - low)].tasks;
                let task = tasks[pick(random, tasks.len())];
                let other = self.fast(task)?;
                let near = |class: usize, option: u16| -> Option<u16> {
                    let wanted = allele::of_strategy(&frame.table().classes[class].strategies[option as usize]);
                    let d = |s: &crate::plan::LayerStrategy| allele::distance(allele::of_strategy(s), wanted);
                    let strategies = &other.table().classes[class].strategies;
                    (0..strategies.len())
                        .min_by(|a, b| d(&strategies[*a]).total_cmp(&d(&strategies[*b])))
                        .map(|i| i as u16)
                };
                for (i, class) in parts.iter().enumerate() {
                    y.options[i] = near(*class as usize, y.options[i])?;
                }
                y.task = task as u32;
                y.sizes = match &self.tasks[task].split {
                    Some(split) => split.clone().into(),
                    None if self.tasks[x.task as usize].split.is_none() => y.sizes,
                    None => even_cut(parts.len(), key.pipeline as usize),
                };
            }
            _ => {
                let i = 1 + pick(random, parts.len().saturating_sub(1));
                if i >= parts.len() || parts[i] != parts[i - 1] {
                    return None;
                }
                y.options[i] = y.options[i - 1];
            }
        }
        Some(y)
    }

    fn alleles(&self, x: &Choice) -> Vec<Allele> {
        self.alleles_of(x)
    }
}

/// `parts` dealt evenly to `stages`.
fn even_cut(parts: usize, stages: usize) -> Box<[u32]> {
    (0..stages).map(|s| (parts * (s + 1) / stages - parts * s / stages) as u32).collect()
}
