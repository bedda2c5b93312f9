//! Parses unary and binary operators.

use super::{Parsed, Parser, Stop, enter};
use crate::ast::{Id, operator};
use crate::lexer::{Lexeme, Token};

const OPERAND: [Token; 15] = [
    Token::OpenBracket,
    Token::OpenBrace,
    Token::OpenParen,
    Token::Dot,
    Token::Minus,
    Token::Not,
    Token::True,
    Token::False,
    Token::Null,
    Token::Float,
    Token::Int,
    Token::Uint,
    Token::String,
    Token::Bytes,
    Token::Ident,
];

pub(super) fn begins_operand(token: Token) -> bool {
    OPERAND.contains(&token)
}

pub(super) fn is_operator(token: Token) -> bool {
    precedence(token).is_some()
        || matches!(token, Token::And | Token::Or | Token::Question | Token::Dot | Token::OpenBracket)
}

fn precedence(token: Token) -> Option<(u8, &'static str)> {
    Some(match token {
        Token::Equal => (1, operator::EQUALS),
        Token::NotEqual => (1, operator::NOT_EQUALS),
        Token::In => (1, operator::IN),
        Token::Less => (1, operator::LESS),
        Token::LessEqual => (1, operator::LESS_EQUALS),
        Token::GreaterEqual => (1, operator::GREATER_EQUALS),
        Token::Greater => (1, operator::GREATER),
        Token::Plus => (2, operator::ADD),
        Token::Minus => (2, operator::SUBTRACT),
        Token::Star => (3, operator::MULTIPLY),
        Token::Slash => (3, operator::DIVIDE),
        Token::Percent => (3, operator::MODULO),
        _ => return None,
    })
}

/// The parsed operands and operators that have not been converted to calls yet.
#[derive(Default)]
struct Pending {
    operands: Vec<Id>,
    operators: Vec<(u8, &'static str, u32)>,
}

/// A chain of `&&` or `||`: the operands, and the offsets of the operators.
#[derive(Default)]
struct Chain {
    terms: Vec<Id>,
    operators: Vec<u32>,
}

impl Parser<'_> {
    /// Parses operands and the binary operators between them. Does not recurse for a chain of operators.
    pub(super) fn operations(&mut self, others: &[Token]) -> Parsed {
        let before = self.nesting;
        let (mut or, mut and, mut pending) = (Chain::default(), Chain::default(), Pending::default());
        enter(&mut self.nesting.relation)?;
        enter(&mut self.nesting.calc)?;
        let first = self.unary(others)?;
        pending.operands.push(first);
        loop {
            let Lexeme { token, at, .. } = self.current();
            match (token, precedence(token)) {
                (_, Some((binds, function))) => {
                    self.apply(&mut pending, binds)?;
                    pending.operators.push((binds, function, at));
                    enter(if binds == 1 { &mut self.nesting.relation } else { &mut self.nesting.calc })?;
                }
                (Token::And | Token::Or, None) => {
                    and.terms.push(self.finish(&mut pending)?);
                    let chain = if token == Token::And { &mut and } else { &mut or };
                    chain.operators.push(at);
                    if token == Token::Or {
                        or.terms.push(self.balanced(operator::AND, &mut and)?);
                    }
                    self.nesting.relation = before.relation + 1;
                    self.nesting.calc = before.calc + 1;
                }
                _ => break,
            }
            self.take();
            let operand = self.unary(&[])?;
            pending.operands.push(operand);
        }
        self.nesting = before;
        and.terms.push(self.finish(&mut pending)?);
        or.terms.push(self.balanced(operator::AND, &mut and)?);
        self.balanced(operator::OR, &mut or)
    }

    /// Converts all pending operators with a precedence of at least `binds` to calls.
    fn apply(&mut self, pending: &mut Pending, binds: u8) -> Parsed<()> {
        while let Some((_, function, at)) = pending.operators.pop_if(|(pending, _, _)| *pending >= binds) {
            // This pattern always matches, because each operator was pushed between two operands.
            let (Some(right), Some(left)) = (pending.operands.pop(), pending.operands.pop()) else {
                return Err(Stop::Syntax);
            };
            let call = self.builder.counted_call(at, function, None, vec![left, right])?;
            pending.operands.push(call);
        }
        Ok(())
    }

    fn finish(&mut self, pending: &mut Pending) -> Parsed {
        self.apply(pending, 0)?;
        pending.operands.pop().ok_or(Stop::Syntax)
    }

    /// Builds a balanced tree from a chain of `&&` or `||`, as in cel-go. Leaves `chain` empty.
    fn balanced(&mut self, function: &'static str, chain: &mut Chain) -> Parsed {
        let Chain { terms, operators } = std::mem::take(chain);
        match terms[..] {
            [only] => Ok(only),
            _ => self.subtree(function, &terms, &operators),
        }
    }

    /// Builds a balanced tree. The recursion is bounded, because the depth of the tree is logarithmic in the number of
    /// operands.
    fn subtree(&mut self, function: &'static str, terms: &[Id], operators: &[u32]) -> Parsed {
        if operators.is_empty() {
            return Ok(terms[0]);
        }
        let middle = operators.len() / 2;
        let left = self.subtree(function, &terms[..=middle], &operators[..middle])?;
        let right = self.subtree(function, &terms[middle + 1..], &operators[middle + 1..])?;
        self.builder.call(operators[middle], function, None, vec![left, right])
    }

    fn unary(&mut self, others: &[Token]) -> Parsed {
        self.expect_operand(others)?;
        match self.peek() {
            Token::Not => self.repeated(Token::Not, operator::NOT),
            Token::Minus if !matches!(self.look(1), Token::Int | Token::Float) => {
                self.repeated(Token::Minus, operator::NEGATE)
            }
            _ => self.member(),
        }
    }

    /// Parses an operand with several negation operators, such as `!!a` or `--a`. An even number of negation operators
    /// has no effect.
    fn repeated(&mut self, token: Token, function: &'static str) -> Parsed {
        let at = self.current().at;
        let mut count = 0;
        while self.peek() == token {
            self.take();
            count += 1;
        }
        if !begins_operand(self.peek()) || matches!(self.peek(), Token::Not | Token::Minus) && !self.negative_literal()
        {
            return Err(self.no_operand(token));
        }
        let operand = self.member()?;
        match count % 2 {
            0 => Ok(operand),
            _ => self.builder.call(at, function, None, vec![operand]),
        }
    }

    fn negative_literal(&self) -> bool {
        self.peek() == Token::Minus && matches!(self.look(1), Token::Int | Token::Float)
    }

    fn no_operand(&mut self, operator: Token) -> Stop {
        let Lexeme { token, text, at } = self.current();
        if operator == Token::Minus {
            let text = if token == Token::End { "" } else { text };
            self.report(at, format!("Syntax error: no viable alternative at input '-{text}'"));
        }
        self.mismatched(&OPERAND)
    }

    /// Checks that the next token can start an operand. As in cel-go, skips a single unexpected token before the
    /// operand.
    fn expect_operand(&mut self, others: &[Token]) -> Parsed<()> {
        if begins_operand(self.peek()) {
            return Ok(());
        }
        let expected: Vec<_> = OPERAND.iter().chain(others).copied().collect();
        if self.peek() == Token::End || !expected.contains(&self.look(1)) {
            return Err(self.mismatched(&expected));
        }
        self.unwanted(&expected);
        self.take();
        if begins_operand(self.peek()) { Ok(()) } else { Err(Stop::Syntax) }
    }
}
