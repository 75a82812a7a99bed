//! Tokens to the tree: recursive descent, precedence climbing for expressions.

use super::ast::{
    Call, Expr, ExprKind, Flag, Function, Item, Operator, Place, Program, Statement, StatementKind, Target,
};
use super::lex::{Token, lex};
use super::{DslError, Span};
use crate::pipeline::action::Pass;

/// Words that are no names of variables.
const KEYWORDS: [&str; 31] = [
    "schedule",
    "devices",
    "microbatches",
    "param",
    "let",
    "chunks",
    "place",
    "require",
    "recompute",
    "offload",
    "forward_only",
    "compact",
    "device",
    "repeat",
    "for",
    "in",
    "while",
    "if",
    "else",
    "flush",
    "slots",
    "at",
    "where",
    "routes",
    "F",
    "B",
    "W",
    "BW",
    "next",
    "min",
    "max",
];

/// Deepest nesting of statements and expressions: the parser must not run out of stack.
const DEEPEST: usize = 64;

/// Parses a program.
pub(super) fn parse(text: &str) -> Result<Program, DslError> {
    let tokens = lex(text)?;
    let mut parser = Parser { text, tokens, at: 0, depth: 0 };
    let mut items = Vec::new();
    while *parser.peek() != Token::End {
        let start = parser.here();
        let item = parser.item()?;
        items.push((item, parser.since(start)));
    }
    Ok(Program { items })
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn here(&self) -> Span {
        self.tokens[self.at].1
    }

    fn since(&self, start: Span) -> Span {
        Span(start.0, self.tokens[self.at.max(1) - 1].1.1.max(start.0))
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.at].0.clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn expected<T>(&self, what: &str) -> Result<T, DslError> {
        Err(DslError::new(self.text, self.here(), what, &self.peek().describe()))
    }

    fn is(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(name) if name == word) || *self.peek() == Token::Sign(sign(word))
    }

    fn accept(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<(), DslError> {
        if self.accept(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    fn name(&mut self) -> Result<String, DslError> {
        match self.peek() {
            Token::Name(name) if !KEYWORDS.contains(&name.as_str()) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            Token::Name(_) => self.expected("a name that is no keyword"),
            _ => self.expected("a name"),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, DslError>) -> Result<T, DslError> {
        if self.depth == DEEPEST {
            return self.expected(&format!("at most {DEEPEST} levels of nesting"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn item(&mut self) -> Result<Item, DslError> {
        let Token::Name(word) = self.peek().clone() else { return self.expected("an item such as `device { .. }`") };
        let flag = |flag| [Flag::Recompute, Flag::Offload, Flag::ForwardOnly].into_iter().find(|f| f.name() == flag);
        if let Some(flag) = flag(&word) {
            self.advance();
            self.expect("where")?;
            return Ok(Item::Flag(flag, self.expr()?));
        }
        match word.as_str() {
            "schedule" => {
                self.advance();
                Ok(Item::Schedule(self.name()?))
            }
            "devices" => {
                self.advance();
                Ok(Item::Devices(self.expr()?))
            }
            "microbatches" => {
                self.advance();
                Ok(Item::Microbatches(self.expr()?))
            }
            "param" | "let" => {
                self.advance();
                let name = self.name()?;
                self.expect("=")?;
                let value = self.expr()?;
                Ok(if word == "param" { Item::Param(name, value) } else { Item::Let(name, value) })
            }
            "chunks" => {
                self.advance();
                Ok(Item::Chunks(self.expr()?))
            }
            "place" => {
                self.advance();
                self.place()
            }
            "require" => {
                self.advance();
                let condition = self.expr()?;
                let Token::Text(why) = self.peek().clone() else {
                    return self.expected("a text that says why, such as \"m must be even\"");
                };
                self.advance();
                Ok(Item::Require(condition, why))
            }
            "compact" => {
                self.advance();
                Ok(Item::Compact)
            }
            "device" => {
                self.advance();
                let device = if self.is("{") { None } else { Some(self.expr()?) };
                Ok(Item::Device(device, self.block()?))
            }
            _ => self.expected(
                "`schedule`, `devices`, `microbatches`, `param`, `let`, `chunks`, `place`, `require`, `recompute`, \
                 `offload`, `forward_only`, `compact` or `device`",
            ),
        }
    }

    fn place(&mut self) -> Result<Item, DslError> {
        let shapes = [
            ("loop", Place::Loop),
            ("wave", Place::Wave),
            ("vee", Place::Vee),
            ("bidirectional", Place::Bidirectional),
        ];
        for (word, place) in shapes {
            if self.accept(word) {
                return Ok(Item::Place(place));
            }
        }
        if self.accept("x") {
            self.expect("->")?;
            return Ok(Item::Place(Place::Map(self.expr()?)));
        }
        if !self.accept("[") {
            return self.expected("`loop`, `wave`, `vee`, `bidirectional`, `x -> device` or a list `[0, 1, 1, 0]`");
        }
        let mut devices = vec![self.expr()?];
        while self.accept(",") {
            devices.push(self.expr()?);
        }
        self.expect("]")?;
        let here = self.here();
        let routes = if self.accept("routes") { self.expr()? } else { Expr { kind: ExprKind::Number(1), span: here } };
        Ok(Item::Place(Place::List(devices, routes)))
    }

    fn block(&mut self) -> Result<Vec<Statement>, DslError> {
        self.expect("{")?;
        let mut statements = Vec::new();
        while !self.accept("}") {
            statements.push(self.deeper(Self::statement)?);
        }
        Ok(statements)
    }

    fn statement(&mut self) -> Result<Statement, DslError> {
        let start = self.here();
        let kind = self.statement_kind()?;
        Ok(Statement { kind, span: self.since(start) })
    }

    fn statement_kind(&mut self) -> Result<StatementKind, DslError> {
        if self.accept("let") {
            let name = self.name()?;
            self.expect("=")?;
            Ok(StatementKind::Let(name, self.expr()?))
        } else if self.accept("repeat") {
            Ok(StatementKind::Repeat(self.expr()?, self.block()?))
        } else if self.accept("for") {
            let name = self.name()?;
            self.expect("in")?;
            let from = self.expr()?;
            self.expect("..")?;
            Ok(StatementKind::For(name, from, self.expr()?, self.block()?))
        } else if self.accept("while") {
            Ok(StatementKind::While(self.expr()?, self.block()?))
        } else if self.accept("if") {
            let condition = self.expr()?;
            let then = self.block()?;
            let otherwise = if !self.accept("else") {
                Vec::new()
            } else if self.is("if") {
                vec![self.deeper(Self::statement)?]
            } else {
                self.block()?
            };
            Ok(StatementKind::If(condition, then, otherwise))
        } else if self.accept("flush") {
            let chunk = if self.accept("(") {
                let chunk = self.expr()?;
                self.expect(")")?;
                Some(chunk)
            } else {
                None
            };
            Ok(StatementKind::Flush(chunk))
        } else if self.accept("slots") {
            Ok(StatementKind::Slots(self.block()?))
        } else if self.accept("at") {
            let slot = self.expr()?;
            Ok(StatementKind::At(slot, self.call()?))
        } else if self.pass().is_some() {
            let first = self.call()?;
            if self.accept("&") { Ok(StatementKind::Both(first, self.call()?)) } else { Ok(StatementKind::Do(first)) }
        } else if matches!(self.peek(), Token::Name(name) if !KEYWORDS.contains(&name.as_str()))
            && self.tokens.get(self.at + 1).is_some_and(|(token, _)| *token == Token::Sign("="))
        {
            let name = self.name()?;
            self.expect("=")?;
            Ok(StatementKind::Assign(name, self.expr()?))
        } else {
            self.expected(
                "an action (`F`, `B`, `W`, `BW`), `let`, an assignment, `repeat`, `for`, `while`, `if`, `flush`, \
                 `slots`, `at` or `}`",
            )
        }
    }

    fn pass(&self) -> Option<Pass> {
        let Token::Name(name) = self.peek() else { return None };
        [Pass::F, Pass::B, Pass::W, Pass::BW].into_iter().find(|pass| pass.name() == name)
    }

    fn call(&mut self) -> Result<Call, DslError> {
        let start = self.here();
        let Some(pass) = self.pass() else { return self.expected("an action: `F`, `B`, `W` or `BW`") };
        self.advance();
        let target = if !self.accept("(") {
            Target::Chunk(Expr { kind: ExprKind::Number(0), span: start })
        } else if pass == Pass::W && self.accept("next") {
            self.expect(")")?;
            Target::Next
        } else {
            let chunk = self.expr()?;
            let target = if self.accept(",") { Target::Exact(chunk, self.expr()?) } else { Target::Chunk(chunk) };
            self.expect(")")?;
            target
        };
        Ok(Call { pass, target, span: self.since(start) })
    }

    fn expr(&mut self) -> Result<Expr, DslError> {
        self.deeper(|parser| parser.binary(0))
    }

    fn binary(&mut self, lowest: u8) -> Result<Expr, DslError> {
        let start = self.here();
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek() {
                Token::Sign(sign) => Operator::from_sign(sign),
                _ => None,
            };
            let Some(operator) = operator.filter(|o| o.precedence() > lowest) else { return Ok(left) };
            self.advance();
            let right = self.binary(operator.precedence())?;
            let kind = ExprKind::Binary(operator, Box::new(left), Box::new(right));
            left = Expr { kind, span: self.since(start) };
        }
    }

    fn unary(&mut self) -> Result<Expr, DslError> {
        let start = self.here();
        let kind = if self.accept("-") {
            ExprKind::Negate(Box::new(self.deeper(Self::unary)?))
        } else if self.accept("!") {
            ExprKind::Not(Box::new(self.deeper(Self::unary)?))
        } else if self.accept("(") {
            let inner = self.expr()?;
            self.expect(")")?;
            return Ok(inner);
        } else if let Token::Number(number) = *self.peek() {
            self.advance();
            ExprKind::Number(number)
        } else if let Some(function) =
            [Function::Min, Function::Max, Function::If].into_iter().find(|f| self.is(f.name()))
        {
            self.advance();
            self.expect("(")?;
            let mut arguments = vec![self.expr()?];
            while self.accept(",") {
                arguments.push(self.expr()?);
            }
            if function == Function::If && arguments.len() != 3 {
                return self.expected("three arguments: `if(condition, then, else)`");
            }
            self.expect(")")?;
            ExprKind::Function(function, arguments)
        } else {
            match self.peek() {
                Token::Name(_) => ExprKind::Name(self.name()?),
                _ => return self.expected("a number, a name, a function or `(`"),
            }
        };
        Ok(Expr { kind, span: self.since(start) })
    }
}

/// The sign with this text, so that words and signs can be asked for alike.
fn sign(word: &str) -> &'static str {
    const SIGNS: [&str; 13] = ["{", "}", "(", ")", "[", "]", ",", "=", "..", "->", "&", "-", "!"];
    SIGNS.into_iter().find(|sign| *sign == word).unwrap_or_default()
}
