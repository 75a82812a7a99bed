//! What the schedule language promises.

use super::ast::{Expr, ExprKind, Function, Operator};
use super::*;
use crate::pipeline::generators::{self, SHIPPED};
use crate::pipeline::{Costs, Fault, PipelineError, simulate, validate};
use proptest::prelude::*;

#[test]
fn shipped_programs_print_and_parse_to_themselves_and_mean_the_same() {
    for shipped in SHIPPED {
        let script = Script::parse(shipped.text).unwrap();
        let printed = script.to_string();
        let again = Script::parse(&printed).unwrap_or_else(|e| panic!("{}: {e}\n{printed}", shipped.name));
        assert_eq!(script.program(), again.program(), "{}", shipped.name);
        assert_eq!(printed, again.to_string());
        for (p, m) in [(2, 4), (4, 8), (6, 12)] {
            let schedule = script.build(&Question::new(p, m)).unwrap();
            assert_eq!(schedule, again.build(&Question::new(p, m)).unwrap());
            validate(&schedule).unwrap_or_else(|e| panic!("{} p={p} m={m}: {e}", shipped.name));
        }
    }
}

#[test]
fn every_schedule_has_a_program() {
    for shipped in SHIPPED {
        let schedule = generators::shipped(shipped.name, &Question::new(4, 8)).unwrap();
        let text = to_program(&schedule).to_string();
        let again = Script::parse(&text).unwrap().build(&Question::default()).unwrap();
        assert_eq!(again.orders, schedule.orders, "{}", shipped.name);
        assert_eq!((again.placement, again.flags), (schedule.placement, schedule.flags));
    }
}

#[test]
fn shipped_programs_serve_awkward_numbers_or_say_what_they_need() {
    let mut served = 0;
    for shipped in SHIPPED {
        for (p, m) in [(1, 1), (1, 3), (2, 1), (3, 2), (4, 1), (4, 5), (5, 7), (7, 3), (3, 9)] {
            match generators::shipped(shipped.name, &Question::new(p, m)) {
                Ok(schedule) => {
                    let costs = Costs::table(&schedule.placement, &schedule.flags, 1.0, 1.0, 1.0, 0.1);
                    simulate(&schedule, &costs).unwrap();
                    served += 1;
                }
                Err(PipelineError::Unsupported { why, .. }) => assert!(!why.is_empty()),
                // Megatron refuses a last group smaller than the pipeline; some of these really deadlock.
                Err(PipelineError::Invalid(Fault::Deadlock { cycle })) => {
                    assert!(shipped.name == "interleaved_1f1b" && m % p != 0 && !cycle.is_empty());
                }
                Err(error) => panic!("{} p={p} m={m}: {error}", shipped.name),
            }
        }
    }
    assert!(served > 80, "only {served}");
}

#[test]
fn errors_point_into_the_text() {
    let question = Question::new(2, 4);
    for (text, line, column, expected, found) in [
        ("device {\n  repeat m { F BX }\n}", 2, 16, "an assignment", "`BX`"),
        ("device { repeat p - { F } }", 1, 21, "a number, a name", "`{`"),
        ("device {\n  F(0\n}", 3, 1, "`)`", "`}`"),
        ("device { F", 1, 11, "`}`", "the end"),
        ("schedule 7", 1, 10, "a name", "`7`"),
        ("devise { }", 1, 1, "`schedule`", "`devise`"),
        ("place spiral", 1, 7, "`loop`", "`spiral`"),
        ("device { F ? }", 1, 12, "an operator", "`?`"),
        ("let a = 99999999999999999999", 1, 9, "63 bits", "99999999999999999999"),
        ("require m > 2 device { }", 1, 15, "a text", "`device`"),
    ] {
        let error = Script::parse(text).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{error}");
        assert!(error.expected.contains(expected) && error.found.contains(found), "{error}");
        assert!(error.to_string().ends_with('^'), "{error}");
    }
    for (text, line, column, expected, found) in [
        ("device {\n  F(q)\n}", 2, 5, "a variable (d, m, p, v)", "`q`"),
        ("device { F(1) }", 1, 12, "a chunk from 0 to 0", "1"),
        ("device { F(0, m) }", 1, 15, "a micro-batch from 0 to 3", "4"),
        ("device { F(0, 1 / (m - 4)) }", 1, 20, "not zero", "0"),
        ("device { F & F }", 1, 10, "`F & B`", "F & F"),
        ("device { k = 1 }", 1, 10, "`let`", "`k`"),
        ("device { while 1 { } }", 1, 10, "ends within", "does not"),
        ("device 0 { F }", 1, 15, "a program for device 1", "none"),
        ("let a = 9223372036854775807 + 1\ndevice { }", 1, 9, "63 bits", "does not"),
        ("require m % 3 == 0 \"a multiple of 3\"\ndevice { }", 1, 9, "a multiple of 3", "m = 4"),
        ("devices 3\ndevice { }", 1, 9, "2 devices", "3"),
        ("place [0, 2]\ndevice { }", 1, 11, "a device from 0 to 1", "2"),
        ("place [0, 0]\ndevice { }", 1, 1, "all devices", "device 1 has no stage"),
        ("forward_only where 1\ndevice { F BW }", 2, 12, "F", "BW of chunk 0"),
        ("compact\ndevice { slots { at 0 F } }", 1, 1, "every F and B", "something else"),
    ] {
        let error = Script::parse(text).unwrap().build(&question).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{error}");
        assert!(error.expected.contains(expected) && error.found.contains(found), "{error}");
    }
}

#[test]
fn parameters_replace_defaults_and_unknown_ones_are_refused() {
    let mut question = Question::new(4, 8);
    question.parameters.insert("g".to_owned(), 8);
    let wide = generators::shipped("interleaved_1f1b", &question).unwrap();
    let narrow = generators::shipped("interleaved_1f1b", &Question::new(4, 8)).unwrap();
    assert_ne!(wide.orders, narrow.orders);
    question.parameters.insert("h".to_owned(), 8);
    let error = generators::shipped("interleaved_1f1b", &question).unwrap_err().to_string();
    assert!(error.contains("`h`") && error.contains("among g"), "{error}");
}

fn expression() -> impl Strategy<Value = Expr> {
    let node = |kind| Expr { kind, span: Span::default() };
    let leaf = prop_oneof![
        (0i64..1000).prop_map(ExprKind::Number),
        prop_oneof![Just("p"), Just("m"), Just("some_name")].prop_map(|name| ExprKind::Name(name.to_owned())),
    ];
    leaf.prop_map(node).prop_recursive(5, 40, 3, move |inner| {
        let operator = prop_oneof![
            Just(Operator::Or),
            Just(Operator::And),
            Just(Operator::Equal),
            Just(Operator::Less),
            Just(Operator::Add),
            Just(Operator::Subtract),
            Just(Operator::Multiply),
            Just(Operator::Divide),
            Just(Operator::Remainder),
        ];
        prop_oneof![
            (operator, inner.clone(), inner.clone()).prop_map(|(o, a, b)| ExprKind::Binary(
                o,
                Box::new(a),
                Box::new(b)
            )),
            inner.clone().prop_map(|a| ExprKind::Negate(Box::new(a))),
            inner.clone().prop_map(|a| ExprKind::Not(Box::new(a))),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(|a| ExprKind::Function(Function::Min, a)),
            proptest::collection::vec(inner, 3).prop_map(|a| ExprKind::Function(Function::If, a)),
        ]
        .prop_map(node)
    })
}

proptest! {
    #[test]
    fn expressions_print_and_parse_to_themselves(expression in expression()) {
        let text = format!("let a = {expression}");
        let program = Script::parse(&text).unwrap();
        let expected = ast::Item::Let("a".to_owned(), expression);
        prop_assert_eq!(&program.program().items[0].0, &expected);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z0-9{}()=+\\-*/%&<>!.,\\[\\]\"# \nFBW]{0,80}") {
        if let Ok(script) = Script::parse(&text) {
            let printed = script.to_string();
            let again = Script::parse(&printed).unwrap();
            prop_assert_eq!(again.program(), script.program());
        }
    }

    #[test]
    fn damaged_programs_are_refused_or_run(which in 0..SHIPPED.len(), cut in 0usize..600, insert in "[ {}()a-z0-9]{0,3}") {
        let text = SHIPPED[which].text;
        let at = cut.min(text.len());
        prop_assume!(text.is_char_boundary(at));
        let end = (at + 2).min(text.len());
        prop_assume!(text.is_char_boundary(end));
        let damaged = format!("{}{insert}{}", &text[..at], &text[end..]);
        if let Ok(script) = Script::parse(&damaged)
            && let Ok(schedule) = script.build(&Question::new(3, 4))
        {
            let _ = validate(&schedule);
        }
    }
}
