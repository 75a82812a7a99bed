//! Python list expressions of flags that say something per layer, e.g. `([0]*3+[1]*58)*1` of `--moe-layer-freq`.
//!
//! Megatron checks that only brackets, commas, digits, `*`, `+` and blanks occur and evaluates the rest as Python.

/// Longest list that is made: a thousand times the layers of any published model.
const LONGEST: usize = 100_000;

/// What a pattern flag says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Every n-th layer, the first included.
    Every(i64),
    /// One entry per layer.
    List(Vec<i64>),
}

impl Pattern {
    /// Reads it; `None` when it is no such expression.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.contains('[') {
            return text.trim().parse().ok().map(Pattern::Every);
        }
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        let list = match parser.sum()? {
            Term::List(list) => list,
            Term::Number(_) => return None,
        };
        parser.skip();
        (parser.at == text.len()).then_some(Pattern::List(list))
    }

    /// One entry per layer, for `layers` layers where it says "every n-th".
    pub fn spread(&self, layers: u64) -> Vec<i64> {
        match self {
            Pattern::Every(n) => {
                (0..layers.min(LONGEST as u64) as i64).map(|i| i64::from(i % (*n).max(1) == 0)).collect()
            }
            Pattern::List(list) => list.clone(),
        }
    }
}

enum Term {
    Number(i64),
    List(Vec<i64>),
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
}

impl Parser<'_> {
    fn skip(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: u8) -> bool {
        self.skip();
        let found = self.text.get(self.at) == Some(&wanted);
        self.at += usize::from(found);
        found
    }

    fn sum(&mut self) -> Option<Term> {
        let mut total = self.product()?;
        while self.eat(b'+') {
            total = match (total, self.product()?) {
                (Term::Number(a), Term::Number(b)) => Term::Number(a.checked_add(b)?),
                (Term::List(mut a), Term::List(b)) => {
                    a.extend(b);
                    (a.len() <= LONGEST).then_some(Term::List(a))?
                }
                _ => return None,
            };
        }
        Some(total)
    }

    fn product(&mut self) -> Option<Term> {
        let mut total = self.atom()?;
        while self.eat(b'*') {
            total = match (total, self.atom()?) {
                (Term::Number(a), Term::Number(b)) => Term::Number(a.checked_mul(b)?),
                (Term::List(list), Term::Number(n)) | (Term::Number(n), Term::List(list)) => {
                    let times = usize::try_from(n.max(0)).ok()?;
                    let length = list.len().checked_mul(times).filter(|n| *n <= LONGEST)?;
                    Term::List(list.iter().copied().cycle().take(length).collect())
                }
                _ => return None,
            };
        }
        Some(total)
    }

    fn atom(&mut self) -> Option<Term> {
        if self.eat(b'(') {
            let inner = self.sum()?;
            return self.eat(b')').then_some(inner);
        }
        if self.eat(b'[') {
            let mut list = Vec::new();
            while !self.eat(b']') {
                match self.sum()? {
                    Term::Number(n) => list.push(n),
                    Term::List(_) => return None,
                }
                if !self.eat(b',') && self.text.get(self.at) != Some(&b']') {
                    return None;
                }
            }
            return Some(Term::List(list));
        }
        self.skip();
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        std::str::from_utf8(&self.text[start..self.at]).ok()?.parse().ok().map(Term::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_expressions_are_evaluated() {
        let list = |text: &str| match Pattern::parse(text) {
            Some(Pattern::List(list)) => list,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(list("([0]*3+[1]*2)"), [0, 0, 0, 1, 1]);
        assert_eq!(list("([1]*3+[0]*1)*2"), [1, 1, 1, 0, 1, 1, 1, 0]);
        assert_eq!(list("[0, 1,1]"), [0, 1, 1]);
        assert_eq!(list("2*[1]"), [1, 1]);
        assert_eq!(Pattern::parse("2"), Some(Pattern::Every(2)));
        assert_eq!(Pattern::Every(2).spread(5), [1, 0, 1, 0, 1]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["", "[", "[1]+", "[1]*[2]", "([1]", "[1]]", "__import__('os')", "[1]*99999999999", "[1 2]"] {
            assert_eq!(Pattern::parse(bad), None, "{bad}");
        }
    }
}
