//! Parses literals, names, lists, maps and messages, and the field selections and calls that follow them.

use std::sync::Arc;

use super::{Parsed, Parser, Stop, enter};
use crate::ast::{Entry, Field, Id, Item, Kind, Literal, operator};
use crate::lexer::{Lexeme, Token};
use crate::schema::is_reserved;

const FIELD_NAME: [Token; 2] = [Token::Ident, Token::EscapedIdent];

impl Parser<'_> {
    pub(super) fn member(&mut self) -> Parsed {
        let before = self.nesting.member;
        enter(&mut self.nesting.member)?;
        let mut operand = self.primary()?;
        loop {
            operand = match self.peek() {
                Token::Dot => {
                    enter(&mut self.nesting.member)?;
                    self.selected(operand)?
                }
                Token::OpenBracket => {
                    enter(&mut self.nesting.member)?;
                    self.indexed(operand)?
                }
                _ => break,
            };
        }
        self.nesting.member = before;
        Ok(operand)
    }

    /// Parses `.field`, `.?field` and `.function(…)` after an operand.
    fn selected(&mut self, operand: Id) -> Parsed {
        if !matches!(self.look(1), Token::Question | Token::Ident | Token::EscapedIdent) {
            return Err(self.no_member());
        }
        let at = self.take().at;
        let optional = self.take_if(Token::Question);
        let Lexeme { token, text, at: name_at } = self.current();
        match token {
            Token::Ident => {}
            Token::EscapedIdent => {
                self.report(name_at, "unsupported syntax: '`'");
                return Err(Stop::Syntax);
            }
            _ => return Err(self.mismatched(&FIELD_NAME)),
        }
        self.take();
        if optional {
            let name = self.builder.literal(name_at, Literal::String(text.into()))?;
            return self.builder.counted_call(at, operator::OPTIONAL_SELECT, None, vec![operand, name]);
        }
        if self.peek() == Token::OpenParen {
            let at = self.current().at;
            let args = self.args()?;
            return self.builder.member_call(at, text, operand, args);
        }
        self.builder.select(at, operand, text)
    }

    fn no_member(&mut self) -> Stop {
        self.take();
        let Lexeme { token, text, at } = self.current();
        let message = match token {
            Token::True | Token::False | Token::Null => format!("mismatched input '{text}' expecting IDENTIFIER"),
            Token::End => "no viable alternative at input '.'".into(),
            _ => format!("no viable alternative at input '.{text}'"),
        };
        self.report(at, format!("Syntax error: {message}"));
        Stop::Syntax
    }

    fn indexed(&mut self, operand: Id) -> Parsed {
        let at = self.take().at;
        let optional = self.take_if(Token::Question);
        self.closers.push(&[Token::CloseBracket]);
        let index = self.expr(if optional { &[] } else { &[Token::Question] })?;
        self.expect(Token::CloseBracket)?;
        self.closers.pop();
        let function = if optional { operator::OPTIONAL_INDEX } else { operator::INDEX };
        self.builder.counted_call(at, function, None, vec![operand, index])
    }

    fn args(&mut self) -> Parsed<Vec<Id>> {
        self.take();
        let mut args = Vec::new();
        self.closers.push(&[Token::Comma, Token::CloseParen]);
        if !self.take_if(Token::CloseParen) {
            args.push(self.expr(&[Token::CloseParen])?);
            while self.take_if(Token::Comma) {
                args.push(self.expr(&[])?);
            }
            self.expect(Token::CloseParen)?;
        }
        self.closers.pop();
        Ok(args)
    }

    fn primary(&mut self) -> Parsed {
        match self.peek() {
            Token::OpenParen => {
                self.take();
                self.closers.push(&[Token::CloseParen]);
                let inner = self.expr(&[])?;
                self.expect(Token::CloseParen)?;
                self.closers.pop();
                Ok(inner)
            }
            Token::OpenBracket => self.list(),
            Token::OpenBrace => self.map(),
            Token::Dot | Token::Ident => self.named(),
            _ => self.literal(),
        }
    }

    fn literal(&mut self) -> Parsed {
        let first = self.take();
        let negative = first.token == Token::Minus;
        let lexeme = if negative { self.take() } else { first };
        match super::literal::value(lexeme.token, lexeme.text, negative) {
            Ok(value) => self.builder.literal(first.at, value),
            Err(message) => {
                self.report(first.at, message);
                self.builder.broken(first.at)
            }
        }
    }

    fn named(&mut self) -> Parsed {
        let start = self.current().at;
        let dot = self.take_if(Token::Dot);
        let Lexeme { token, text, at } = self.current();
        if token != Token::Ident {
            return Err(if dot { self.no_name() } else { self.mismatched(&[Token::Ident]) });
        }
        if let Some(parts) = self.message_name() {
            return self.message(dot, parts);
        }
        self.take();
        let call = self.peek() == Token::OpenParen;
        let call_at = self.current().at;
        let args = if call { self.args()? } else { Vec::new() };
        if is_reserved(text) {
            self.report(start, format!("reserved identifier: {text}"));
            return self.builder.broken(start);
        }
        let name: Arc<str> = if dot { format!(".{text}").into() } else { text.into() };
        if call { self.builder.global_call(call_at, &name, args) } else { self.builder.push(at, Kind::Ident(name)) }
    }

    fn no_name(&mut self) -> Stop {
        let Lexeme { token, text, at } = self.current();
        let text = if token == Token::End { "" } else { text };
        self.report(at, format!("Syntax error: no viable alternative at input '.{text}'"));
        Stop::Syntax
    }

    /// Returns the number of tokens in a message name such as `a.b.c`, or `None` if no `{` follows the name.
    fn message_name(&self) -> Option<usize> {
        let mut count = 1;
        while self.look(count) == Token::Dot && self.look(count + 1) == Token::Ident {
            count += 2;
        }
        (self.look(count) == Token::OpenBrace).then_some(count)
    }

    fn message(&mut self, dot: bool, parts: usize) -> Parsed {
        let mut name = String::from(if dot { "." } else { "" });
        (0..parts).for_each(|_| name.push_str(self.take().text));
        let at = self.take().at;
        let mut fields = Vec::new();
        self.closers.push(&[Token::Comma, Token::CloseBrace]);
        while self.peek() != Token::CloseBrace {
            let optional = self.take_if(Token::Question);
            fields.push(self.field(optional)?);
            if !self.take_if(Token::Comma) {
                break;
            }
        }
        self.close(Token::CloseBrace)?;
        self.builder.push(at, Kind::Struct { name: name.into(), fields })
    }

    fn field(&mut self, optional: bool) -> Parsed<Field> {
        let Lexeme { token, text: name, at } = self.current();
        match token {
            Token::Ident => {}
            Token::EscapedIdent => {
                self.report(at, "unsupported syntax: '`'");
                return Err(Stop::Syntax);
            }
            _ if optional => return Err(self.mismatched(&FIELD_NAME)),
            _ => {
                let others = [Token::CloseBrace, Token::Comma, Token::Question, Token::Ident, Token::EscapedIdent];
                return Err(self.mismatched(&others));
            }
        }
        self.take();
        let at = self.expect(Token::Colon)?.at;
        let value = self.expr(&[])?;
        Ok(Field { at, name: name.into(), value, optional })
    }

    fn list(&mut self) -> Parsed {
        let at = self.take().at;
        let mut items = Vec::new();
        self.closers.push(&[Token::Comma, Token::CloseBracket]);
        while self.peek() != Token::CloseBracket && !self.only_comma(Token::CloseBracket, items.is_empty()) {
            let optional = self.take_if(Token::Question);
            let value = self.expr(&[Token::CloseBracket, Token::Comma, Token::Question])?;
            items.push(Item { value, optional });
            if !self.take_if(Token::Comma) {
                break;
            }
        }
        self.close(Token::CloseBracket)?;
        self.builder.push(at, Kind::List(items))
    }

    fn map(&mut self) -> Parsed {
        let at = self.take().at;
        let mut entries = Vec::new();
        self.closers.push(&[Token::Comma, Token::CloseBrace]);
        while self.peek() != Token::CloseBrace && !self.only_comma(Token::CloseBrace, entries.is_empty()) {
            let optional = self.take_if(Token::Question);
            let key = self.expr(&[Token::CloseBrace, Token::Comma, Token::Question])?;
            self.expect(Token::Colon)?;
            let value = self.expr(&[])?;
            entries.push(Entry { key, value, optional });
            if !self.take_if(Token::Comma) {
                break;
            }
        }
        self.close(Token::CloseBrace)?;
        self.builder.push(at, Kind::Map(entries))
    }

    /// Consumes the comma in `[,]` or `{,}`.
    fn only_comma(&mut self, closer: Token, empty: bool) -> bool {
        empty && self.look(1) == closer && self.take_if(Token::Comma)
    }

    fn close(&mut self, closer: Token) -> Parsed<()> {
        if self.peek() != closer {
            if self.look(1) != closer {
                return Err(self.mismatched(&[closer, Token::Comma]));
            }
            self.unwanted(&[closer, Token::Comma]);
            self.take();
        }
        self.take();
        self.closers.pop();
        Ok(())
    }
}
