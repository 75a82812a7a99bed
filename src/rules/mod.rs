//! What the frameworks accept: rules as data, each with an id, where the framework checks it, and a citation.
//!
//! A rule answers [`Verdict::Unknown`] as long as something that it needs is not decided, so one table serves whole
//! launches and the partial plans of a search. Tables name the version that they were read from.

pub mod deepspeed;
pub mod megatron;
pub mod targets;
pub mod torchtitan;

use serde::Serialize;

/// Something that a partial plan has not decided yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecided;

/// A value, or that it is not decided yet.
pub type Known<T> = Result<T, Undecided>;

/// Where a framework finds out, in the order in which it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// When it reads its arguments.
    ValidateArgs,
    /// When it makes the model's configuration of them.
    TransformerConfig,
    /// When it makes process groups.
    Groups,
    /// When it builds the model.
    Build,
    /// When it sets up the pipeline schedule.
    Schedule,
    /// Later, in training, with an error that does not name the cause; or never, with a silent loss.
    Run,
}

/// What is wrong, and what would not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The numbers that break the rule.
    pub why: String,
    /// The nearest valid values, the most advisable first.
    pub instead: Vec<String>,
}

impl Fault {
    /// A fault with nothing to offer.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), instead: Vec::new() }
    }

    /// What would be valid.
    #[must_use]
    pub fn instead(mut self, valid: impl Into<String>) -> Self {
        self.instead.push(valid.into());
        self
    }
}

/// What a rule finds.
pub type Finding = Known<Option<Fault>>;

/// What a rule says of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Ok,
    /// It is broken.
    Broken(Fault),
    /// Something it needs is not decided yet.
    Unknown,
}

/// One rule about launches of type `L`.
pub struct Rule<L: ?Sized> {
    /// Its id.
    pub id: &'static str,
    /// Where the framework checks it.
    pub when: Moment,
    /// What it demands.
    pub demands: &'static str,
    /// Where it stands in the framework's source, or who reported it.
    pub source: &'static str,
    /// Looks at a launch.
    pub check: fn(&L) -> Finding,
}

impl<L: ?Sized> Rule<L> {
    /// What it says of `launch`.
    pub fn judge(&self, launch: &L) -> Verdict {
        match (self.check)(launch) {
            Ok(None) => Verdict::Ok,
            Ok(Some(fault)) => Verdict::Broken(fault),
            Err(Undecided) => Verdict::Unknown,
        }
    }
}

/// The rules of one version of a framework.
pub struct Book<L: ?Sized + 'static> {
    /// The framework.
    pub framework: &'static str,
    /// The version they were read from.
    pub version: &'static str,
    /// When, `YYYY-MM`.
    pub date: &'static str,
    /// In the order in which the framework checks them, one chapter after the other.
    pub chapters: &'static [&'static [Rule<L>]],
}

/// A rule that a launch breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Its id.
    pub id: &'static str,
    /// The framework whose rule it is.
    pub framework: &'static str,
    /// The version of that framework.
    pub version: &'static str,
    /// Where the framework finds out.
    pub when: Moment,
    /// What it demands.
    pub demands: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// The numbers that break it.
    pub why: String,
    /// The nearest valid values.
    pub instead: Vec<String>,
}

impl<L: ?Sized> Book<L> {
    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = &'static Rule<L>> + use<L> {
        self.chapters.iter().flat_map(|chapter| chapter.iter())
    }

    /// All rules that `launch` breaks, in the order in which the framework would find them.
    pub fn broken(&self, launch: &L) -> Vec<Broken> {
        let faulty = self.rules().filter_map(|rule| match rule.judge(launch) {
            Verdict::Broken(fault) => Some((rule, fault)),
            _ => None,
        });
        faulty
            .map(|(rule, fault)| Broken {
                id: rule.id,
                framework: self.framework,
                version: self.version,
                when: rule.when,
                demands: rule.demands,
                source: rule.source,
                why: fault.why,
                instead: fault.instead,
            })
            .collect()
    }

    /// The first rule that `launch` breaks for certain.
    pub fn first_broken(&self, launch: &L) -> Option<&'static Rule<L>> {
        self.rules().find(|rule| matches!(rule.judge(launch), Verdict::Broken(_)))
    }

    /// A rule by its id.
    pub fn rule(&self, id: &str) -> Option<&'static Rule<L>> {
        self.rules().find(|rule| rule.id == id)
    }
}

/// A table of rules of one moment: id, demand, source and check of each.
macro_rules! rules {
    ($(#[$doc:meta])* $name:ident: $launch:ty, $when:ident, $source:literal;
     $($id:ident: $demands:literal => $check:expr;)+) => {
        $(#[$doc])*
        pub(super) const $name: &[$crate::rules::Rule<$launch>] = &[$($crate::rules::Rule {
            id: stringify!($id),
            when: $crate::rules::Moment::$when,
            demands: $demands,
            source: $source,
            check: $check,
        }),+];
    };
}
pub(crate) use rules;

/// A fault if `bad`.
pub(crate) fn fault_if(bad: bool, why: impl FnOnce() -> String) -> Finding {
    Ok(bad.then(|| Fault::new(why())))
}

/// `a` divides by `b`; nothing divides by zero.
pub(crate) fn divides(a: u64, b: u64) -> bool {
    b != 0 && a.is_multiple_of(b)
}

/// The numbers of `candidates` nearest to `wanted`, at most `keep`, in ascending order.
pub(crate) fn nearest(candidates: impl IntoIterator<Item = u64>, wanted: u64, keep: usize) -> Vec<u64> {
    let mut list: Vec<u64> = candidates.into_iter().collect();
    list.sort_by_key(|n| (n.abs_diff(wanted), *n));
    list.truncate(keep);
    list.sort_unstable();
    list
}

/// Numbers in words: `1, 2, 4`.
pub(crate) fn listed(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Half(Known<u64>);
    const EVEN: Book<Half> = Book {
        framework: "toy",
        version: "1",
        date: "2026-11",
        chapters: &[&[Rule {
            id: "even",
            when: Moment::Run,
            demands: "an even number",
            source: "here",
            check: |h| {
                let n = h.0?;
                Ok((n % 2 != 0).then(|| Fault::new(format!("{n} is odd")).instead((n + 1).to_string())))
            },
        }]],
    };

    #[test]
    fn a_rule_is_unknown_until_what_it_needs_is_decided() {
        let rule = EVEN.rule("even").unwrap();
        assert_eq!(rule.judge(&Half(Err(Undecided))), Verdict::Unknown);
        assert_eq!(rule.judge(&Half(Ok(4))), Verdict::Ok);
        assert!(matches!(rule.judge(&Half(Ok(5))), Verdict::Broken(_)));
        assert_eq!(EVEN.broken(&Half(Ok(5)))[0].instead, ["6"]);
        assert!(EVEN.broken(&Half(Err(Undecided))).is_empty());
    }

    #[test]
    fn the_nearest_numbers_are_told_in_order() {
        assert_eq!(nearest([1, 2, 4, 8, 16], 5, 3), [2, 4, 8]);
        assert_eq!(listed(&[2, 4]), "2, 4");
    }
}
