//! Argument lines of Megatron-LM, read as its parser does (`argparse` without abbreviations).

use super::flags::{Flag, Flags, Takes, Type};
use super::launch::{Launch, Value};
use super::pattern::Pattern;
use crate::error::{InputError, Kind, nearest};

/// Words of a line as a shell would split it: blanks separate, quotes and backslashes hold together.
///
/// # Errors
/// A quote that is not closed.
pub fn words(line: &str) -> Result<Vec<String>, InputError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            '\'' | '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' && matches!(chars.peek(), Some('"' | '\\' | '$' | '`')) => {
                            text.extend(chars.next());
                        }
                        Some(inner) => text.push(inner),
                        None => {
                            let error = InputError::new(Kind::Syntax).found(line);
                            return Err(error.expected(format!("a closing {c}")));
                        }
                    }
                }
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// An argument that argparse takes for an option: a dash and more, unless it is a negative number.
fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err() && !word.contains(' ')
}

fn scalar(flag: &Flag, name: &str, kind: Type, text: &str) -> Result<Value, InputError> {
    let refuse = |expected: String| InputError::new(Kind::InvalidValue).at(name).found(text).expected(expected);
    if !flag.choices.is_empty() && !flag.choices.contains(&text) {
        let error = refuse(format!("one of {}", flag.choices.join(", ")));
        return Err(match nearest(text, flag.choices.iter().copied()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        });
    }
    let plain = text.trim().replace('_', "");
    match kind {
        Type::Int => plain.parse().map(Value::Int).map_err(|_| refuse("a whole number".to_owned())),
        Type::Float => plain.parse().map(Value::Float).map_err(|_| refuse("a number".to_owned())),
        Type::Pattern if Pattern::parse(text).is_none() => {
            Err(refuse("a whole number, or a list such as `([0]*3+[1]*58)`".to_owned()))
        }
        Type::Text | Type::Pattern => Ok(Value::Text(text.to_owned())),
    }
}

/// Sets the arguments of `words` on top of the defaults.
///
/// # Errors
/// A flag that Megatron does not know (with the nearest that it does), a value that is missing or of another type or not
/// among the choices, a value without a flag.
pub fn parse<S: AsRef<str>>(words: &[S], world: u64) -> Result<Launch, InputError> {
    let flags = Flags::all();
    let mut launch = Launch::defaults(world);
    let mut at = 0;
    while let Some(word) = words.get(at).map(AsRef::as_ref) {
        at += 1;
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name, Some(value)),
            _ => (word, None),
        };
        if !is_option(word) {
            return Err(InputError::new(Kind::Syntax).found(word).expected("a flag: this value belongs to none"));
        }
        let Some(flag) = flags.find(name) else {
            let error = InputError::new(Kind::UnknownName).at(name).found(name);
            let error = error.expected("a flag of Megatron-LM");
            return Err(match nearest(name, flags.names()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        };
        let following = || words[at..].iter().map(AsRef::as_ref).take_while(|w| !is_option(w));
        let missing = || InputError::new(Kind::MissingField).at(name).expected("a value");
        let value = match flag.takes {
            Takes::Nothing(on) => match attached {
                None => Value::Switch(on),
                Some(value) => {
                    return Err(InputError::new(Kind::InvalidValue)
                        .at(name)
                        .found(value)
                        .expected("no value: a switch"));
                }
            },
            Takes::One(kind) => {
                let text = match attached {
                    Some(value) => value,
                    None => {
                        let value = following().next().ok_or_else(missing)?;
                        at += 1;
                        value
                    }
                };
                scalar(flag, name, kind, text)?
            }
            Takes::Many(kind, none) => {
                let list: Vec<String> = match attached {
                    Some(value) => vec![value.to_owned()],
                    None => following().map(str::to_owned).collect(),
                };
                at += if attached.is_some() { 0 } else { list.len() };
                if list.is_empty() && !none {
                    return Err(missing());
                }
                for text in &list {
                    scalar(flag, name, kind, text)?;
                }
                Value::Many(list)
            }
        };
        launch.set(flag.destination, value);
    }
    Ok(launch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Launch, InputError> {
        parse(&words(line).unwrap(), 8)
    }

    #[test]
    fn a_line_is_read_as_argparse_reads_it() {
        let l = read(
            "--tensor-model-parallel-size=2 --lr -1e-4 --cp-comm-type p2p a2a --bf16 --disable-bias-linear \
            --moe-layer-freq '([0]*3 + [1]*58)' --num-layers 4 --num-layers 8",
        )
        .unwrap();
        assert_eq!((l.tp(), l.lr(), l.num_layers()), (Ok(2), Ok(Some(-1e-4)), Ok(Some(8))));
        assert_eq!(l.cp_comm_type().unwrap().unwrap(), ["p2p", "a2a"]);
        assert_eq!((l.bf16(), l.add_bias_linear()), (Ok(true), Ok(false)));
        assert!(l.is_given("num_layers") && !l.is_given("hidden_size"));
    }

    #[test]
    fn unknown_flags_name_the_nearest() {
        let error = read("--tensor-parallel-size 2").unwrap_err();
        assert_eq!(error.help.as_deref(), Some("did you mean `--tensor-model-parallel-size`?"));
        for bad in [
            "--num-layers",
            "--num-layers x",
            "--num-layers 8.5",
            "4",
            "--bf16=1",
            "--cp-comm-type",
            "--recompute-method all",
            "--moe-layer-freq [x]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(words("a 'b").is_err());
    }
}
