//! Builds a syntax tree from tokens, with the limits and error messages of cel-go.

mod builder;
mod literal;
mod macros;
mod operators;
mod primary;

use crate::ast::{Ast, Id};
use crate::lexer::{self, Lexeme, Token};
use crate::source::{CompileError, Issue};

use builder::Builder;

const MAX_CODE_POINTS: usize = 100_000;
/// The maximum nesting depth of each grammar rule.
const MAX_NESTING: u32 = 250;

/// Parses an expression. The macro `cel.bind` is expanded only if `has_bindings` is set.
pub(crate) fn parse(text: &str, has_bindings: bool) -> Result<Ast, CompileError> {
    let size = text.chars().count();
    if size > MAX_CODE_POINTS {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}");
        return Err(CompileError::new(text, vec![Issue::whole(message)]));
    }
    let (tokens, issues) = lexer::tokens(text);
    let builder = Builder::new(issues, has_bindings);
    let mut parser = Parser { tokens, next: 0, nesting: Nesting::default(), closers: Vec::new(), builder };
    let root = parser.start();
    let mut issues = parser.builder.issues;
    let root = match root {
        Ok(root) => root,
        Err(Stop::Syntax) => 0,
        Err(Stop::Limit(message)) => {
            issues.push(Issue::whole(message));
            0
        }
    };
    if issues.is_empty() { Ok(Ast { exprs: parser.builder.exprs, root }) } else { Err(CompileError::new(text, issues)) }
}

enum Stop {
    /// The parser found a syntax error and has already recorded it.
    Syntax,
    Limit(String),
}

type Parsed<T = Id> = Result<T, Stop>;

/// The current nesting depth of each grammar rule of cel-go.
#[derive(Clone, Copy, Default)]
struct Nesting {
    expr: u32,
    relation: u32,
    calc: u32,
    member: u32,
}

struct Parser<'a> {
    tokens: Vec<Lexeme<'a>>,
    next: usize,
    nesting: Nesting,
    /// For each open bracket, the tokens that may follow its content.
    closers: Vec<&'static [Token]>,
    builder: Builder,
}

impl<'a> Parser<'a> {
    fn start(&mut self) -> Parsed {
        let root = self.expr(&[])?;
        match self.peek() {
            Token::End => Ok(root),
            _ if self.look(1) == Token::End => {
                self.unwanted(&[Token::End]);
                Ok(root)
            }
            _ => Err(self.mismatched(&[Token::End])),
        }
    }

    /// Parses an expression. `others` contains additional tokens that the grammar allows at this position.
    fn expr(&mut self, others: &[Token]) -> Parsed {
        let before = self.nesting;
        enter(&mut self.nesting.expr)?;
        let condition = self.operations(others)?;
        let expr = match self.peek() {
            Token::Question => self.conditional(condition)?,
            _ => condition,
        };
        self.nesting = before;
        Ok(expr)
    }

    fn conditional(&mut self, condition: Id) -> Parsed {
        let at = self.take().at;
        let yes = self.operations(&[])?;
        self.expect(Token::Colon)?;
        let no = self.expr(&[])?;
        self.builder.conditional(at, condition, yes, no)
    }

    fn peek(&self) -> Token {
        self.look(0)
    }

    fn look(&self, ahead: usize) -> Token {
        self.tokens.get(self.next + ahead).map_or(Token::End, |lexeme| lexeme.token)
    }

    /// Returns the current token. Returns `Token::End` after the last token.
    fn current(&self) -> Lexeme<'a> {
        self.tokens[self.next]
    }

    fn take(&mut self) -> Lexeme<'a> {
        let taken = self.current();
        if taken.token != Token::End {
            self.next += 1;
        }
        taken
    }

    fn take_if(&mut self, token: Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.take();
        }
        found
    }

    /// Consumes the required token `token`. As in cel-go, skips a single unexpected token before `token`.
    fn expect(&mut self, token: Token) -> Parsed<Lexeme<'a>> {
        if self.peek() == token {
            return Ok(self.take());
        }
        if self.look(1) == token {
            self.unwanted(&[token]);
            self.take();
            return Ok(self.take());
        }
        if self.may_follow(token) {
            let Lexeme { text, at, .. } = self.current();
            self.report(at, format!("Syntax error: missing {} at '{text}'", token.name()));
            return Err(Stop::Syntax);
        }
        Err(self.mismatched(&[token]))
    }

    /// Returns `true` if the current token would be valid after the missing token `closer`.
    fn may_follow(&self, closer: Token) -> bool {
        let here = self.peek();
        let outer = self.closers.len().checked_sub(2).map(|index| self.closers[index]);
        match closer {
            Token::CloseParen | Token::CloseBracket | Token::CloseBrace => {
                operators::is_operator(here) || outer.map_or(here == Token::End, |outer| outer.contains(&here))
            }
            Token::Colon => operators::begins_operand(here),
            _ => false,
        }
    }

    fn report(&mut self, at: u32, message: impl Into<String>) {
        self.builder.issues.push(Issue::new(at, message));
    }

    fn unwanted(&mut self, expected: &[Token]) {
        let Lexeme { text, at, .. } = self.current();
        self.report(at, format!("Syntax error: extraneous input '{text}' expecting {}", listed(expected)));
    }

    fn mismatched(&mut self, expected: &[Token]) -> Stop {
        let Lexeme { text, at, .. } = self.current();
        self.report(at, format!("Syntax error: mismatched input '{text}' expecting {}", listed(expected)));
        Stop::Syntax
    }
}

fn enter(nesting: &mut u32) -> Parsed<()> {
    *nesting += 1;
    if *nesting > MAX_NESTING {
        Err(Stop::Limit(format!("expression recursion limit exceeded: {MAX_NESTING}")))
    } else {
        Ok(())
    }
}

fn listed(tokens: &[Token]) -> String {
    match tokens {
        [token] => token.name().into(),
        _ => {
            let mut sorted = tokens.to_vec();
            sorted.sort_unstable();
            let names: Vec<_> = sorted.into_iter().map(Token::name).collect();
            format!("{{{}}}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn message(text: &str) -> String {
        parse(text, false).map_or_else(|error| error.to_string(), |_| "accepted".into())
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused() {
        for (open, inner, close) in
            [("(", "1", ")"), ("[", "", "]"), ("{1:", "2", "}"), ("f(", "1", ")"), ("-(", "1", ")")]
        {
            let nested = |depth: usize| format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(message(&nested(200)), "accepted", "{open}");
            assert!(
                message(&nested(251)).starts_with("ERROR: <input>:-1:0: expression recursion limit exceeded: 250"),
                "{open}"
            );
            assert!(message(&nested(20_000)).contains("recursion limit exceeded"), "{open}");
        }
    }

    #[test]
    fn chains_beyond_the_limit_are_refused() {
        for part in [".b", " + a", " == a", "[0]", ".f()", " * a", " ? a : a"] {
            assert_eq!(message(&format!("a{}", part.repeat(200))), "accepted", "{part}");
            assert!(message(&format!("a{}", part.repeat(10_000))).contains("recursion"), "{part}");
        }
        for part in [" && a", " || a"] {
            assert_eq!(message(&format!("a{}", part.repeat(10_000))), "accepted", "{part}");
        }
        assert_eq!(message(&format!("{}a", "!".repeat(90_000))), "accepted");
        assert_eq!(message(&format!("{}a", "-".repeat(90_000))), "accepted");
    }

    #[test]
    fn too_long_text_is_refused() {
        let expected = "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000";
        assert_eq!(message(&" ".repeat(100_001)), expected);
    }
}
