//! What a user is told about a backend: when to use it, and what each of its parameters means and where its default is from.

use super::stream::Stream;
use serde_json::Value;

/// A parameter of a backend. Its name and default are those of the backend's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Where the default is from.
    pub source: &'static str,
    /// Which values tuning may try.
    pub range: Range,
}

/// Values that are worth a trial: around the default, as far as the sources of the defaults and common sense go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// The default only: what it changes is not how well a search goes.
    Fixed,
    /// Between two numbers; no negative one is taken.
    Real(f64, f64),
    /// Between two shares; any from 0 to 1 is taken.
    Share(f64, f64),
    /// Between two positive numbers, evenly in their logarithm.
    Log(f64, f64),
    /// A whole number, both ends counted, evenly in the logarithm.
    Whole(u64, u64),
    /// On or off.
    Flag,
    /// One of these.
    Names(&'static [&'static str]),
}

impl Range {
    /// A value of it; none where it is fixed.
    pub fn draw(self, stream: &mut Stream) -> Option<Value> {
        let between = |from: f64, to: f64, unit: f64| from + (to - from) * unit;
        let log = |from: f64, to: f64, unit: f64| between(from.ln(), to.ln(), unit).exp();
        // Three digits are enough, and can be read.
        let short = |x: f64| format!("{x:.2e}").parse().unwrap_or(x);
        Some(match self {
            Range::Fixed => return None,
            Range::Real(from, to) | Range::Share(from, to) => Value::from(short(between(from, to, stream.unit()))),
            Range::Log(from, to) => Value::from(short(log(from, to, stream.unit()))),
            Range::Whole(from, to) => {
                let drawn = log(from.max(1) as f64, (to + 1) as f64, stream.unit()).floor() as u64;
                Value::from(drawn.clamp(from, to))
            }
            Range::Flag => Value::from(stream.chance(0.5)),
            Range::Names(names) => Value::from(names[stream.index(names.len())]),
        })
    }
}

impl Range {
    /// In words; none where it is fixed.
    pub fn words(self) -> Option<String> {
        Some(match self {
            Range::Fixed => return None,
            Range::Real(from, to) | Range::Share(from, to) | Range::Log(from, to) => format!("{from} to {to}"),
            Range::Whole(from, to) => format!("{from} to {to}"),
            Range::Flag => "true or false".to_owned(),
            Range::Names(names) => names.join(" or "),
        })
    }
}

impl Parameter {
    /// The same with values to try.
    pub const fn within(self, range: Range) -> Parameter {
        Parameter { range, ..self }
    }
}

/// Short for a [`Parameter`].
pub const fn parameter(name: &'static str, meaning: &'static str, source: &'static str) -> Parameter {
    Parameter { name, meaning, source, range: Range::Fixed }
}

/// Parameters under a name of their own: `backend.preset` wherever a backend is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// The parameters that differ from the defaults, a JSON object.
    pub parameters: &'static str,
}

/// A backend in words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Page {
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// When to use it, and when not.
    pub when: &'static str,
    /// Its presets.
    pub presets: &'static [Preset],
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

/// `auto`.
pub const AUTO: Page = Page {
    summary: "exact where that proves the answer, otherwise a portfolio that starts from what exact found",
    source: "this engine",
    when: "The default. Use another one to learn how it does, or when the portfolio's first stages are known to be a waste.",
    presets: &[],
    parameters: STAGES,
};

/// `portfolio`.
pub const PORTFOLIO: Page = Page {
    summary: "tree search, then genetic search from its best, then annealing, over one evaluator",
    source: "this engine",
    when: "Where nothing is known of the problem and exact search does not apply: no stage is best at every budget.",
    presets: &[],
    parameters: STAGES,
};

const STAGES: &[Parameter] = &[parameter(
    "stages",
    "backends in order, each with its share of the evaluations and its parameters",
    "tree search leads below 2 000 evaluations, breeding and annealing above (measured on synthetic chains, 2026-11)",
)];

/// `exact`.
pub const EXACT: Page = Page {
    summary: "proves the optimum: by decomposition into chains where there is one, else by branch and bound",
    source: "Lawler and Wood 1966; dynamic programming over non-dominated labels",
    when: "Wherever it ends in time: additive plans of any length, trees whose bounds are tight. On trees with loose bounds \
           it finds little before its time is up.",
    presets: &[],
    parameters: &[
        parameter("target_gap", "stop when proven this close to the optimum", "zero: prove it"),
        parameter("max_labels", "labels of a window beyond which a run only is heuristic", "memory of a workstation"),
        parameter("max_steps", "label extensions of the first run over a task", "seconds of one core"),
        parameter("all_steps", "label extensions of all runs together", "a minute of one core"),
        parameter("batch", "tasks refined together; does not depend on threads", "enough for a socket's cores"),
    ],
};

/// `mcts`.
pub const MCTS: Page = Page {
    summary: "grows a tree by PUCT with the problem's prior, in batches, closing what bounds rule out; roll-outs follow the best path \
              and learn what changes are worth",
    source: "Rosin 2011; Silver 2017; Liu 2020 (WU-UCT); Winands 2008 (solver); Cazenave 2009 and Shaw 1998 (roll-outs)",
    when: "Few evaluations, each dear, and a prior that means something; small trees, which it proves. Not where an \
           evaluation takes a microsecond: annealing then does ten times as many.",
    presets: &[
        Preset {
            name: "plain",
            meaning: "PUCT with roll-outs by the prior and nothing learned: a third of the time per evaluation",
            source: "Rosin 2011; Silver 2017",
            parameters: r#"{"drafts": 1, "polish": 0.0}"#,
        },
        Preset {
            name: "frugal",
            meaning: "ten times as many drafts, up to a millisecond per evaluation: for paths of fifty decisions and more",
            source: "Silver 2012",
            parameters: r#"{"drafts": 160}"#,
        },
        Preset {
            name: "uct",
            meaning: "UCB1 and roll-outs by chance: no prior anywhere",
            source: "Kocsis and Szepesvari 2006",
            parameters: r#"{"select": "uct", "guided": false, "mix": 0.0, "c": 0.7, "drafts": 1, "polish": 0.0}"#,
        },
        Preset {
            name: "single_player",
            meaning: "UCB1 with a bonus for spread",
            source: "Schadd et al. 2008 (SP-MCTS)",
            parameters: r#"{"select": "uct", "mix": 0.0, "c": 0.1, "spread": 1.0, "drafts": 1, "polish": 0.0}"#,
        },
        Preset {
            name: "halving",
            meaning: "sequential halving at the root: for a few hundred evaluations",
            source: "Karnin 2013; Cazenave 2015 (SHOT)",
            parameters: r#"{"halving": true}"#,
        },
        Preset {
            name: "transposition",
            meaning: "of prefixes that meet only the cheapest goes on, where the problem says what meets",
            source: "Childs, Brodeur and Kocsis 2008 on transpositions; dominance as in best-first search",
            parameters: r#"{"transposition": true}"#,
        },
    ],
    parameters: &[
        parameter("c", "weight of exploration", "0.5 and 0.2 led on chains of layers (drafts, 2026-11)")
            .within(Range::Log(0.05, 2.0)),
        parameter("select", "how visits are shared: puct or uct", "PUCT leads where there is a prior (measured)")
            .within(Range::Names(&["puct", "uct"])),
        parameter("spread", "weight of the bonus for spread", "Schadd 2008; zero: none").within(Range::Real(0.0, 1.0)),
        parameter("halving", "whether the root's options are halved again and again", "Karnin 2013")
            .within(Range::Flag),
        parameter("guided", "whether roll-outs and the order of options follow the prior", "worth more than the rule")
            .within(Range::Flag),
        parameter("mix", "share of the best in a node's value, the rest is the mean", "the mean: Kocsis 2006")
            .within(Range::Share(0.0, 1.0)),
        parameter("scale", "how costs are brought to [0, 1]: minmax or sigma", "Schmoecker 2025 for sigma")
            .within(Range::Names(&["minmax", "sigma"])),
        parameter("first_play_reduction", "how much less an unvisited child is taken to be worth", "Silver 2017")
            .within(Range::Real(0.0, 0.5)),
        parameter("batch", "descents before their solutions are priced together", "up to 64 lost nothing (measured)")
            .within(Range::Whole(4, 64)),
        parameter("bounded", "whether completions keep below what is known, where they can", "branch and bound"),
        parameter(
            "patience",
            "evaluations without an improvement before a fresh tree; 0: an eighth of the budget",
            "Schadd 2008",
        ),
        parameter("noise", "share of noise in the priors of all trees but the first", "Silver 2017, 0.25")
            .within(Range::Share(0.0, 0.5)),
        parameter(
            "transposition",
            "whether of prefixes that meet only the cheapest goes on",
            "Childs 2008; off: few problems can tell",
        )
        .within(Range::Flag),
        parameter(
            "drafts",
            "drafts of a completion, of which the most promising is priced, up to 2 000 evaluations; fewer beyond",
            "Silver 2012; 16 to 32 came closest on chains of 24 layers (measured, 2026-11); one: none",
        )
        .within(Range::Whole(1, 32)),
        parameter(
            "polish",
            "share of a batch that makes the best path anew in some places instead of descending",
            "Shaw 1998; half: best or equal on chains and pipelines (measured, 2026-11)",
        )
        .within(Range::Share(0.0, 0.75)),
    ],
};

/// `genetic`.
pub const GENETIC: Page = Page {
    summary: "breeds complete paths on islands in a ring, with run operators and local search at the best, several drafts per child",
    source: "Alba and Tomassini 2002; Deb 2000; Fialho 2010; Emmerich, Giannakoglou and Naujoks 2006",
    when: "Thousands of evaluations on coupled decisions, and where the problem has moves of its own. Where an evaluation takes \
           less than ten microseconds and there are many, `genetic.plain` does several times as many; where one takes \
           tens of milliseconds and there are few, `genetic.frugal` comes closer.",
    presets: &[
        Preset {
            name: "plain",
            meaning: "one draft per child: nothing is learned, children cost a fraction of the time",
            source: "Alba and Tomassini 2002",
            parameters: r#"{"drafts": 1}"#,
        },
        Preset {
            name: "frugal",
            meaning: "a thousand drafts, most of which go on from the best of them: one to three milliseconds per evaluation",
            source: "Emmerich 2006",
            parameters: r#"{"drafts": 1000, "climb": 0.9}"#,
        },
    ],
    parameters: &[
        parameter(
            "islands",
            "populations side by side",
            "one of each kind; 4 to 8 in Alba and Tomassini 2002, who had no budgets of thousands (measured, 2026-11)",
        )
        .within(Range::Whole(1, 8)),
        parameter("population", "members of each; fewer where the budget is below fifty generations", "this engine")
            .within(Range::Whole(10, 120)),
        parameter("offspring", "children of a steady-state island per generation", "this engine")
            .within(Range::Whole(4, 64)),
        parameter("tournament", "members drawn for a tournament", "binary: Deb 2000").within(Range::Whole(2, 6)),
        parameter("elite", "members of a generational island that survive unconditionally", "De Jong 1975")
            .within(Range::Whole(1, 6)),
        parameter("migration", "generations between migrations", "25: Alba and Tomassini 2002")
            .within(Range::Whole(5, 60)),
        parameter(
            "local",
            "share of the children that are neighbours of the island's best",
            "5 to 10 % (measured, 2026-11)",
        )
        .within(Range::Share(0.0, 0.4)),
        parameter("niches", "children per generation bred within niches, where there are several", "this engine")
            .within(Range::Whole(4, 64)),
        parameter("patience", "generations without an improvement after which an island begins anew", "this engine")
            .within(Range::Whole(15, 200)),
        parameter(
            "drafts",
            "drafts of a child, of which the most promising is priced, up to 2 000 evaluations; fewer beyond",
            "Emmerich 2006; 32 came closest on chains and pipelines of 24 layers (measured, 2026-11)",
        )
        .within(Range::Whole(1, 64)),
        parameter(
            "climb",
            "share of the drafts that go on from the best draft so far",
            "with 32 drafts it makes no difference on chains of 24 layers, with 1 000 it does (measured, 2026-11)",
        )
        .within(Range::Share(0.0, 0.95)),
    ],
};

/// `anneal`.
pub const ANNEAL: Page = Page {
    summary: "several annealing chains side by side, with the same moves as genetic search",
    source: "Kirkpatrick, Gelatt and Vecchi 1983",
    when: "Evaluations of microseconds and a budget of tens of thousands. Not below a few hundred evaluations: it is still hot.",
    presets: &[Preset {
        name: "flexflow",
        meaning: "one chain at one temperature that returns to the best: 20 ms of an iteration of one second",
        source: "FlexFlow, mcmc_optimize of model.cc: alpha 0.05 per millisecond, back to the best every min(budget / 100, 1 000)",
        parameters: r#"{"chains": 1, "proposals": 1, "hot": 0.02, "cold": 0.02, "reset": 0.01}"#,
    }],
    parameters: &[
        parameter("chains", "chains side by side", "each gets a share of the evaluations only")
            .within(Range::Whole(1, 16)),
        parameter(
            "proposals",
            "neighbours of a chain that are priced together; fewer where the budget allows less than fifty rounds",
            "Witte 1991; a socket's cores",
        )
        .within(Range::Whole(1, 32)),
        parameter("hot", "first temperature, as a share of the objective", "the size of a resharding in a plan")
            .within(Range::Log(0.001, 0.1)),
        parameter("cold", "last temperature, as a share of the objective", "the size of a rounding in a plan")
            .within(Range::Log(1e-5, 1e-3)),
        parameter(
            "reset",
            "rounds between returns to the best, as a share of all (1 000 at most); zero: never",
            "FlexFlow",
        ),
        parameter("exchange", "rounds between two replacements of the worst chain, as a share of all", "this engine")
            .within(Range::Share(0.0, 0.1)),
    ],
};

/// `random`.
pub const RANDOM: Page = Page {
    summary: "uniform descents, none twice where that can be known: the floor",
    source: "folklore",
    when: "As the floor that every other backend must beat, and to enumerate small spaces.",
    presets: &[],
    parameters: &[
        parameter("prior", "draw by the problem's prior instead of uniformly", "off: a floor that knows nothing")
            .within(Range::Flag),
        parameter("batch", "solutions asked for at once; any number gives the same solutions", "a socket's cores"),
    ],
};
