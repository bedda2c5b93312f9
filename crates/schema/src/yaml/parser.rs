//! Converts YAML tokens to events about documents, collections and scalars.

use std::collections::HashMap;

use super::cursor::{Mark, YamlError};
use super::scanner::{PlacedToken, Scanner, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum YamlEvent {
    DocumentStart,
    DocumentEnd,
    StreamEnd,
    Alias(String),
    Scalar { text: String, plain: bool, properties: Properties },
    SequenceStart(Properties),
    SequenceEnd,
    MappingStart(Properties),
    MappingEnd,
}

/// The anchor and the tag of a node. The prefix of the tag has already replaced its tag handle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) anchor: Option<String>,
    pub(super) tag: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    FirstDocument,
    NextDocument,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequence,
    /// A sequence with the same indentation as its key.
    IndentlessSequence,
    BlockKey,
    BlockValue,
    FlowSequence {
        first: bool,
    },
    /// A single-pair mapping without braces, inside a flow sequence.
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        first: bool,
    },
    FlowValue,
    /// A key without a value, because no colon follows the key.
    NoFlowValue,
    End,
}

type Parsed = Result<(YamlEvent, Mark), YamlError>;

#[derive(Debug)]
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    /// The states to which the parser returns at the end of each open node.
    states: Vec<State>,
    marks: Vec<Mark>,
    /// The tag prefixes, keyed by tag handle.
    tags: HashMap<String, String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            scanner: Scanner::new(text),
            state: State::FirstDocument,
            states: Vec::new(),
            marks: Vec::new(),
            tags: HashMap::new(),
        }
    }

    /// Returns the next event and its position. After an error, returns [`YamlEvent::StreamEnd`].
    pub(super) fn next(&mut self) -> Parsed {
        let parsed = self.parse();
        if parsed.is_err() {
            self.state = State::End;
        }
        parsed
    }

    fn parse(&mut self) -> Parsed {
        match self.state {
            State::FirstDocument => self.document_start(true),
            State::NextDocument => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::BlockKey => self.block_key(),
            State::BlockValue => self.block_value(),
            State::FlowSequence { first } => self.flow_sequence(first),
            State::PairKey => self.pair_key(),
            State::PairValue => self.pair_value(),
            State::PairEnd => {
                self.state = State::FlowSequence { first: false };
                let mark = self.mark()?;
                Ok((YamlEvent::MappingEnd, mark))
            }
            State::FlowKey { first } => self.flow_key(first),
            State::FlowValue => self.flow_value(),
            State::NoFlowValue => self.empty(State::FlowKey { first: false }),
            State::End => Ok((YamlEvent::StreamEnd, Mark::default())),
        }
    }

    fn peek(&mut self) -> Result<&Token, YamlError> {
        self.scanner.peek().map(|placed| &placed.token)
    }

    fn mark(&mut self) -> Result<Mark, YamlError> {
        self.scanner.peek().map(|placed| placed.mark)
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn empty(&mut self, next: State) -> Parsed {
        self.state = next;
        let mark = self.mark()?;
        Ok((YamlEvent::Scalar { text: String::new(), plain: true, properties: Properties::default() }, mark))
    }

    /// Parses a node. Returns an empty scalar if the next token is one of `ends`.
    fn node_unless(&mut self, ends: &[Token], next: State, block: bool, indentless: bool) -> Parsed {
        if ends.contains(self.peek()?) {
            return self.empty(next);
        }
        self.states.push(next);
        self.node(block, indentless)
    }

    fn document_start(&mut self, first: bool) -> Parsed {
        while !first && *self.peek()? == Token::DocumentEnd {
            self.scanner.take()?;
        }
        let mark = self.mark()?;
        let implicit = first
            && !matches!(
                self.peek()?,
                Token::Version { .. } | Token::TagDirective { .. } | Token::DocumentStart | Token::StreamEnd
            );
        if *self.peek()? == Token::StreamEnd {
            self.state = State::End;
            return Ok((YamlEvent::StreamEnd, mark));
        }
        self.directives()?;
        self.states.push(State::DocumentEnd);
        if implicit {
            self.state = State::BlockNode;
            return Ok((YamlEvent::DocumentStart, mark));
        }
        if *self.peek()? != Token::DocumentStart {
            return Err(YamlError::parsing("did not find expected <document start>", Mark::default(), self.mark()?));
        }
        self.scanner.take()?;
        self.state = State::DocumentContent;
        Ok((YamlEvent::DocumentStart, mark))
    }

    fn directives(&mut self) -> Result<(), YamlError> {
        let (mut version, mut own) = (false, HashMap::new());
        while matches!(self.peek()?, Token::Version { .. } | Token::TagDirective { .. }) {
            let PlacedToken { token, mark } = self.scanner.take()?;
            let error = |problem: &str| YamlError::parsing(problem, Mark::default(), mark);
            match token {
                Token::Version { .. } if version => return Err(error("found duplicate %YAML directive")),
                Token::Version { major: 1, minor: 1 } => version = true,
                Token::Version { .. } => return Err(error("found incompatible YAML document")),
                Token::TagDirective { handle, prefix } => {
                    let before = own.insert(handle, prefix);
                    before.map_or(Ok(()), |_| Err(error("found duplicate %TAG directive")))?;
                }
                _ => {}
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            own.entry(handle.into()).or_insert_with(|| prefix.into());
        }
        self.tags = own;
        Ok(())
    }

    fn document_content(&mut self) -> Parsed {
        let ends = matches!(
            self.peek()?,
            Token::Version { .. }
                | Token::TagDirective { .. }
                | Token::DocumentStart
                | Token::DocumentEnd
                | Token::StreamEnd
        );
        if ends {
            self.pop();
            return self.empty(self.state);
        }
        self.node(true, false)
    }

    fn document_end(&mut self) -> Parsed {
        let mark = self.mark()?;
        if *self.peek()? == Token::DocumentEnd {
            self.scanner.take()?;
        }
        self.state = State::NextDocument;
        Ok((YamlEvent::DocumentEnd, mark))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Parsed {
        let start = self.mark()?;
        if let Token::Alias(_) = self.peek()? {
            self.pop();
            let PlacedToken { token, mark } = self.scanner.take()?;
            let name = if let Token::Alias(name) = token { name } else { String::new() };
            return Ok((YamlEvent::Alias(name), mark));
        }
        let properties = self.properties(start)?;
        let (event, state) = match self.peek()? {
            Token::BlockEntry if indentless => (YamlEvent::SequenceStart(properties), State::IndentlessSequence),
            Token::Scalar { .. } => {
                self.pop();
                let token = self.scanner.take()?.token;
                let Token::Scalar { text, plain } = token else { return self.empty(self.state) };
                return Ok((YamlEvent::Scalar { text, plain, properties }, start));
            }
            Token::FlowSequenceStart => (YamlEvent::SequenceStart(properties), State::FlowSequence { first: true }),
            Token::FlowMappingStart => (YamlEvent::MappingStart(properties), State::FlowKey { first: true }),
            Token::BlockSequenceStart if block => (YamlEvent::SequenceStart(properties), State::BlockSequence),
            Token::BlockMappingStart if block => (YamlEvent::MappingStart(properties), State::BlockKey),
            _ if properties != Properties::default() => {
                self.pop();
                return Ok((YamlEvent::Scalar { text: String::new(), plain: true, properties }, start));
            }
            _ => return Err(YamlError::parsing("did not find expected node content", start, self.mark()?)),
        };
        self.state = state;
        if !matches!(state, State::IndentlessSequence) {
            let mark = self.scanner.take()?.mark;
            self.marks.push(mark);
        }
        Ok((event, start))
    }

    fn properties(&mut self, start: Mark) -> Result<Properties, YamlError> {
        let mut properties = Properties::default();
        loop {
            match self.peek()? {
                Token::Anchor(name) if properties.anchor.is_none() => properties.anchor = Some(name.clone()),
                Token::Tag { handle, suffix } if properties.tag.is_none() => {
                    let (handle, suffix) = (handle.clone(), suffix.clone());
                    properties.tag = match self.tags.get(&handle) {
                        _ if handle.is_empty() => Some(suffix),
                        Some(prefix) => Some(format!("{prefix}{suffix}")),
                        None => {
                            return Err(YamlError::parsing("found undefined tag handle", start, self.mark()?));
                        }
                    };
                }
                _ => return Ok(properties),
            }
            self.scanner.take()?;
        }
    }

    fn end(&mut self, event: YamlEvent) -> Parsed {
        self.pop();
        self.marks.pop();
        Ok((event, self.scanner.take()?.mark))
    }

    fn error(&mut self, problem: &str) -> YamlError {
        let context = self.marks.last().copied().unwrap_or_default();
        match self.mark() {
            Ok(mark) => YamlError::parsing(problem, context, mark),
            Err(error) => error,
        }
    }

    fn block_sequence(&mut self) -> Parsed {
        match self.peek()? {
            Token::BlockEntry => {
                self.scanner.take()?;
                self.node_unless(&[Token::BlockEntry, Token::BlockEnd], State::BlockSequence, true, false)
            }
            Token::BlockEnd => self.end(YamlEvent::SequenceEnd),
            _ => Err(self.error("did not find expected '-' indicator")),
        }
    }

    fn indentless_sequence(&mut self) -> Parsed {
        const ENDS: [Token; 4] = [Token::BlockEntry, Token::Key, Token::Value, Token::BlockEnd];
        if *self.peek()? == Token::BlockEntry {
            self.scanner.take()?;
            return self.node_unless(&ENDS, State::IndentlessSequence, true, false);
        }
        self.pop();
        let mark = self.mark()?;
        Ok((YamlEvent::SequenceEnd, mark))
    }

    fn block_key(&mut self) -> Parsed {
        match self.peek()? {
            Token::Key => {
                self.scanner.take()?;
                self.node_unless(&[Token::Key, Token::Value, Token::BlockEnd], State::BlockValue, true, true)
            }
            Token::BlockEnd => self.end(YamlEvent::MappingEnd),
            _ => Err(self.error("did not find expected key")),
        }
    }

    fn block_value(&mut self) -> Parsed {
        if *self.peek()? != Token::Value {
            return self.empty(State::BlockKey);
        }
        self.scanner.take()?;
        self.node_unless(&[Token::Key, Token::Value, Token::BlockEnd], State::BlockKey, true, true)
    }

    fn flow_sequence(&mut self, first: bool) -> Parsed {
        const NEXT: State = State::FlowSequence { first: false };
        if *self.peek()? != Token::FlowSequenceEnd && !first {
            if *self.peek()? != Token::FlowEntry {
                return Err(self.error("did not find expected ',' or ']'"));
            }
            self.scanner.take()?;
        }
        match self.peek()? {
            Token::FlowSequenceEnd => self.end(YamlEvent::SequenceEnd),
            Token::Key => {
                self.state = State::PairKey;
                let mark = self.scanner.take()?.mark;
                Ok((YamlEvent::MappingStart(Properties::default()), mark))
            }
            _ => self.node_unless(&[], NEXT, false, false),
        }
    }

    fn pair_key(&mut self) -> Parsed {
        const ENDS: [Token; 3] = [Token::Value, Token::FlowEntry, Token::FlowSequenceEnd];
        if !ENDS.contains(self.peek()?) {
            return self.node_unless(&[], State::PairValue, false, false);
        }
        // Ignore the token, as in libyaml.
        self.scanner.take()?;
        self.empty(State::PairValue)
    }

    fn pair_value(&mut self) -> Parsed {
        if *self.peek()? != Token::Value {
            return self.empty(State::PairEnd);
        }
        self.scanner.take()?;
        self.node_unless(&[Token::FlowEntry, Token::FlowSequenceEnd], State::PairEnd, false, false)
    }

    fn flow_key(&mut self, first: bool) -> Parsed {
        if *self.peek()? != Token::FlowMappingEnd && !first {
            if *self.peek()? != Token::FlowEntry {
                return Err(self.error("did not find expected ',' or '}'"));
            }
            self.scanner.take()?;
        }
        match self.peek()? {
            Token::FlowMappingEnd => self.end(YamlEvent::MappingEnd),
            Token::Key => {
                self.scanner.take()?;
                let ends = [Token::Value, Token::FlowEntry, Token::FlowMappingEnd];
                self.node_unless(&ends, State::FlowValue, false, false)
            }
            _ => self.node_unless(&[], State::NoFlowValue, false, false),
        }
    }

    fn flow_value(&mut self) -> Parsed {
        const NEXT: State = State::FlowKey { first: false };
        if *self.peek()? != Token::Value {
            return self.empty(NEXT);
        }
        self.scanner.take()?;
        self.node_unless(&[Token::FlowEntry, Token::FlowMappingEnd], NEXT, false, false)
    }
}
