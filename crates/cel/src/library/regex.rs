//! Regular expressions in the syntax of RE2.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{Ast, RepetitionKind, RepetitionRange, Visitor, parse::ParserBuilder, visit};

use super::{Function, Returned};
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::Value;

/// The maximum size of a compiled pattern in bytes.
const MAX_SIZE: usize = 1 << 20;
/// The maximum nesting of a pattern.
const MAX_NESTING: u32 = 200;
/// The maximum count of a repetition, and of nested repetitions multiplied.
const MAX_REPEAT: u32 = 1000;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

/// Compiles a pattern.
///
/// # Errors
///
/// The reason if the pattern is wrong, or if it is too large.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let wrong = |reason: &str| format!("error parsing regexp: {reason}");
    let parsed = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(pattern);
    let parsed = parsed.map_err(|error| wrong(&format!("{}: `{pattern}`", error.kind())))?;
    let limits = visit(&parsed, Limits { counts: Vec::new(), exceeded: false, foreign: false });
    match limits {
        Ok((true, _)) => return Err(wrong(&format!("invalid repeat count: `{pattern}`"))),
        Ok((_, true)) => return Err(wrong(&format!("invalid or unsupported Perl syntax: `{pattern}`"))),
        Ok(_) => {}
        Err(never) => match never {},
    }
    let built =
        RegexBuilder::new(pattern).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).nest_limit(MAX_NESTING).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => wrong("expression too large"),
        error => wrong(&error.to_string()),
    })
}

/// Checks what Go refuses and Rust accepts.
struct Limits {
    counts: Vec<u32>,
    exceeded: bool,
    foreign: bool,
}

impl Visitor for Limits {
    type Output = (bool, bool);
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok((self.exceeded, self.foreign))
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Repetition(repetition) => {
                let count = match &repetition.op.kind {
                    RepetitionKind::Range(RepetitionRange::Exactly(count) | RepetitionRange::AtLeast(count)) => *count,
                    RepetitionKind::Range(RepetitionRange::Bounded(_, count)) => *count,
                    _ => 1,
                };
                self.counts.push(count.max(1));
                let product = self.counts.iter().try_fold(1_u32, |product, count| product.checked_mul(*count));
                self.exceeded |= product.is_none_or(|product| product > MAX_REPEAT);
            }
            Ast::ClassBracketed(class) => {
                self.foreign |= matches!(class.kind, regex_syntax::ast::ClassSet::BinaryOp(_));
            }
            Ast::Flags(flags) => {
                use regex_syntax::ast::Flag;
                let foreign = [Flag::IgnoreWhitespace, Flag::Unicode, Flag::CRLF];
                self.foreign |= foreign.into_iter().any(|flag| flags.flags.flag_state(flag).is_some());
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::Repetition(_) = ast {
            self.counts.pop();
        }
        Ok(())
    }
}

fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, pattern) = super::two_texts(args)?;
    Some(meter.pattern(pattern, "").map(|regex| Value::Bool(regex.is_match(text))))
}

fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, pattern) = super::two_texts(args)?;
    let found = |regex: Regex| Value::string(regex.find(text).map_or("", |found| found.as_str()));
    Some(meter.pattern(pattern, "Illegal regex: ").map(found))
}

fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (texts, limit) = match args {
        [_, _] => (args, usize::MAX),
        [_, _, Value::Int(limit)] => (&args[..2], usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => return None,
    };
    let (text, pattern) = super::two_texts(texts)?;
    let regex = match meter.pattern(pattern, "Illegal regex: ") {
        Ok(regex) => regex,
        Err(failure) => return Some(Err(failure)),
    };
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(limit) {
        if let Err(failure) = meter.text(part.len() + 16) {
            return Some(Err(failure));
        }
        found.push(part.as_str().to_string());
    }
    Some(Ok::<_, Failure>(Value::strings(found)))
}
