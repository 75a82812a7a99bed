//! The string of `--pipeline-model-parallel-layout`: `E` embedding, `t` layer, `m` MTP module, `L` loss, `|` ends a stage;
//! `x*n` repeats a character and `(..)*n` a group; commas are ignored. Stage `x` stands on rank `x mod PP` as its chunk
//! `x div PP` (`core/transformer/pipeline_parallel_layer_layout.py`, megatron-core 0.19.2).

/// Longest string after repetition.
const LONGEST: usize = 100_000;

/// Stages in order of traversal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The symbols of each stage.
    pub stages: Vec<String>,
}

/// Why a text is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A character that means nothing.
    #[error("`{0}` is no symbol of a layout: E, t, m, L, |")]
    Symbol(char),
    /// More symbols than anybody can want.
    #[error("the layout is longer than {LONGEST} symbols when written out")]
    Long,
}

impl Layout {
    /// Reads it as Megatron does: groups first, then single characters, each from left to right.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let text: Vec<char> = text.chars().filter(|c| *c != ',').collect();
        let unrolled = repeat_characters(&repeat_groups(&text)?)?;
        if let Some(bad) = unrolled.iter().find(|c| !"EtmL|".contains(**c)) {
            return Err(LayoutError::Symbol(*bad));
        }
        let joined: String = unrolled.into_iter().collect();
        Ok(Self { stages: joined.split('|').map(str::to_owned).collect() })
    }

    /// How often a symbol occurs in all.
    pub fn count(&self, symbol: char) -> u64 {
        self.stages.iter().map(|s| Self::count_in(s, symbol)).sum()
    }

    /// How often a symbol occurs in a stage.
    pub fn count_in(stage: &str, symbol: char) -> u64 {
        stage.chars().filter(|c| *c == symbol).count() as u64
    }

    /// Layers by rank and chunk.
    pub fn layers(&self, pipeline: u64) -> Vec<Vec<u64>> {
        let p = pipeline.max(1) as usize;
        (0..p).map(|rank| self.stages.iter().skip(rank).step_by(p).map(|s| Self::count_in(s, 't')).collect()).collect()
    }

    /// The shortest usual writing: runs as `t*n`, a repeated stage as `(tt|)*n`.
    pub fn write(&self) -> String {
        let short = |stage: &str| {
            let mut out = String::new();
            let mut chars = stage.chars().peekable();
            while let Some(c) = chars.next() {
                let mut n = 1;
                while chars.next_if_eq(&c).is_some() {
                    n += 1;
                }
                match n {
                    1 => out.push(c),
                    2 => out.extend([c, c]),
                    _ => out.push_str(&format!("{c}*{n}")),
                }
            }
            out
        };
        let mut out = String::new();
        let last = self.stages.len().saturating_sub(1);
        let mut x = 0;
        while x < self.stages.len() {
            let same = self.stages[x..last].iter().take_while(|s| **s == self.stages[x]).count();
            if same >= 2 && !self.stages[x].is_empty() {
                out.push_str(&format!("({}|)*{same}", short(&self.stages[x])));
                x += same;
            } else {
                out.push_str(&short(&self.stages[x]));
                if x < last {
                    out.push('|');
                }
                x += 1;
            }
        }
        out
    }
}

/// Digits from `at` on: the number and where it ends.
fn number(text: &[char], at: usize) -> Option<(usize, usize)> {
    let end = at + text[at.min(text.len())..].iter().take_while(|c| c.is_ascii_digit()).count();
    let digits: String = text.get(at..end)?.iter().collect();
    Some((digits.parse().ok()?, end))
}

fn push(out: &mut Vec<char>, piece: &[char], times: usize) -> Result<(), LayoutError> {
    if piece.len().saturating_mul(times).saturating_add(out.len()) > LONGEST {
        return Err(LayoutError::Long);
    }
    for _ in 0..times {
        out.extend_from_slice(piece);
    }
    Ok(())
}

/// `(..)*n`, where the group holds no closing parenthesis and at least one character.
fn repeat_groups(text: &[char]) -> Result<Vec<char>, LayoutError> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let group = (text[at] == '(').then(|| {
            let close = at + 1 + text[at + 1..].iter().position(|c| *c == ')')?;
            let (times, end) = (text.get(close + 1) == Some(&'*')).then(|| number(text, close + 2))??;
            (close > at + 1).then_some((close, times, end))
        });
        match group.flatten() {
            Some((close, times, end)) => {
                push(&mut out, &text[at + 1..close], times)?;
                at = end;
            }
            None => {
                push(&mut out, &text[at..=at], 1)?;
                at += 1;
            }
        }
    }
    Ok(out)
}

/// `x*n` for any character `x`.
fn repeat_characters(text: &[char]) -> Result<Vec<char>, LayoutError> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let times = (text.get(at + 1) == Some(&'*')).then(|| number(text, at + 2)).flatten();
        let (times, end) = times.unwrap_or((1, at + 1));
        push(&mut out, &text[at..=at], times)?;
        at = end;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(text: &str, pipeline: u64) -> Vec<Vec<u64>> {
        Layout::parse(text).unwrap().layers(pipeline)
    }

    #[test]
    fn repetitions_are_written_out() {
        assert_eq!(layers("Et*3|(tttt|)*6t*5L", 4), [[3, 4], [4, 4], [4, 4], [4, 5]]);
        assert_eq!(layers("Et*8|t*8|t*8|t*8Lt*0", 4), [[8], [8], [8], [8]]);
        let deepseek = Layout::parse("Et*3|(tt|)*29,m|L").unwrap();
        assert_eq!((deepseek.stages.len(), deepseek.count('t'), deepseek.count('m')), (32, 61, 1));
    }

    #[test]
    fn unknown_symbols_and_absurd_lengths_are_refused() {
        assert_eq!(Layout::parse("Et | tL"), Err(LayoutError::Symbol(' ')));
        assert_eq!(Layout::parse("Et*8|x*8"), Err(LayoutError::Symbol('x')));
        assert_eq!(Layout::parse("(t|"), Err(LayoutError::Symbol('(')));
        assert_eq!(Layout::parse("t*999999999"), Err(LayoutError::Long));
        assert_eq!(Layout::parse("(t|)*99999999999999999999"), Err(LayoutError::Symbol('(')));
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for text in
            ["Et*3|(tt|)*29,m|L", "Et|(tt|)*30mL", "E|t*11|t*11|t*10L", "Et*10||t*11|t*11L", "Et*7|t*8|t*8|t*7L", "EtL"]
        {
            let layout = Layout::parse(text).unwrap();
            let written = layout.write();
            assert_eq!(Layout::parse(&written), Ok(layout), "{text} -> {written}");
            assert!(written.len() <= text.len() + 4, "{text} -> {written}");
        }
    }
}
