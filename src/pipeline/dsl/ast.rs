//! The tree of a program. Equality ignores where in the text a node stood.

use super::Span;
use crate::pipeline::action::Pass;

/// A program: items in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// The items.
    pub items: Vec<(Item, Span)>,
}

/// A declaration.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// `schedule NAME`
    Schedule(String),
    /// `devices EXPR`: the number of devices, if the program fixes it.
    Devices(Expr),
    /// `microbatches EXPR`: the number of micro-batches, if the program fixes it.
    Microbatches(Expr),
    /// `param NAME = EXPR`: a value that the caller may replace.
    Param(String, Expr),
    /// `let NAME = EXPR`
    Let(String, Expr),
    /// `chunks EXPR`: stages per device; 1 if absent, 2 for `vee` and `bidirectional`.
    Chunks(Expr),
    /// `place ...`
    Place(Place),
    /// `require EXPR "why"`
    Require(Expr, String),
    /// `recompute where EXPR` and the like; `x` is the stage.
    Flag(Flag, Expr),
    /// `compact`: move the actions of `slots` as early as the peak of memory allows.
    Compact,
    /// `device { ... }` or `device EXPR { ... }`
    Device(Option<Expr>, Vec<Statement>),
}

/// A placement.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// `place loop`
    Loop,
    /// `place wave`
    Wave,
    /// `place vee`
    Vee,
    /// `place bidirectional`
    Bidirectional,
    /// `place x -> EXPR`
    Map(Expr),
    /// `place [0, 1, 1, 0]`, with a number of routes
    List(Vec<Expr>, Expr),
}

/// A property of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Activations are recomputed.
    Recompute,
    /// Activations are offloaded.
    Offload,
    /// There is no backward.
    ForwardOnly,
}

impl Flag {
    /// Its keyword.
    pub fn name(self) -> &'static str {
        match self {
            Flag::Recompute => "recompute",
            Flag::Offload => "offload",
            Flag::ForwardOnly => "forward_only",
        }
    }
}

/// A statement with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What it says.
    pub kind: StatementKind,
    /// Where it stands.
    pub span: Span,
}

/// What a statement says.
#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    /// `let NAME = EXPR`
    Let(String, Expr),
    /// `NAME = EXPR`
    Assign(String, Expr),
    /// `repeat EXPR { ... }`
    Repeat(Expr, Vec<Statement>),
    /// `for NAME in EXPR..EXPR { ... }`
    For(String, Expr, Expr, Vec<Statement>),
    /// `while EXPR { ... }`
    While(Expr, Vec<Statement>),
    /// `if EXPR { ... } else { ... }`
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// One action.
    Do(Call),
    /// `ACTION & ACTION`
    Both(Call, Call),
    /// `flush` or `flush(EXPR)`: all weight passes that are due (of one chunk).
    Flush(Option<Expr>),
    /// `slots { ... }`: the actions inside are ordered by their slots.
    Slots(Vec<Statement>),
    /// `at EXPR ACTION`
    At(Expr, Call),
}

/// An action: `F`, `F(chunk)`, `F(chunk, microbatch)`, `W(next)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Which pass.
    pub pass: Pass,
    /// What for.
    pub target: Target,
    /// Where it stands.
    pub span: Span,
}

/// What an action is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The next micro-batch of a chunk.
    Chunk(Expr),
    /// A micro-batch of a chunk.
    Exact(Expr, Expr),
    /// The weight pass that has been due for longest, whatever its chunk.
    Next,
}

/// An expression over integers; conditions are 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it says.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// What an expression says.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A number.
    Number(i64),
    /// A variable.
    Name(String),
    /// `-EXPR`
    Negate(Box<Expr>),
    /// `!EXPR`
    Not(Box<Expr>),
    /// `EXPR OP EXPR`
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// `min(a, b, ..)`, `max(a, b, ..)`, `if(condition, then, else)`
    Function(Function, Vec<Expr>),
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The second if the first holds, else the third; only that one is computed.
    If,
}

impl Function {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Function::Min => "min",
            Function::Max => "max",
            Function::If => "if",
        }
    }
}

macro_rules! operators {
    ($($name:ident $sign:literal $precedence:literal $doc:literal),* $(,)?) => {
        /// A binary operator. All associate to the left; division rounds down.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operator { $(#[doc = $doc] $name),* }

        impl Operator {
            /// How it is written.
            pub fn sign(self) -> &'static str { match self { $(Operator::$name => $sign),* } }
            /// Larger binds tighter.
            pub(super) fn precedence(self) -> u8 { match self { $(Operator::$name => $precedence),* } }
            pub(super) fn from_sign(sign: &str) -> Option<Self> { match sign { $($sign => Some(Operator::$name),)* _ => None } }
        }
    };
}

operators! {
    Or "||" 1 "Either holds.", And "&&" 2 "Both hold.",
    Equal "==" 3 "Equal.", Unequal "!=" 3 "Not equal.", Less "<" 3 "Less.", AtMost "<=" 3 "Less or equal.",
    Greater ">" 3 "Greater.", AtLeast ">=" 3 "Greater or equal.",
    Add "+" 4 "Sum.", Subtract "-" 4 "Difference.",
    Multiply "*" 5 "Product.", Divide "/" 5 "Quotient, rounded down.", Remainder "%" 5 "Rest of that division.",
}
