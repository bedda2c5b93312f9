//! Cuts the body of a list into its items, as it comes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::watch::{FrameTooLarge, Scan};

/// Takes the items out of a list while its body is still coming, so that no more of it is held than one item and what stands
/// around the items, the envelope.
///
/// It only tells where an item ends; whether it is JSON is for the decoder to say. An item that lies within one chunk is not
/// copied. Stepped: it does no I/O.
#[derive(Debug)]
pub(crate) struct ListSplitter {
    limit: usize,
    /// What was pushed and not yet looked at.
    chunks: VecDeque<Bytes>,
    /// All that has come outside of the items.
    envelope: Vec<u8>,
    outside: Outside,
    /// Where in the present item it stands; `None` outside of the items.
    inside: Option<Scan>,
    /// The beginning of the present item, from chunks that ended within it.
    partial: BytesMut,
}

/// What may stand around the items: their list's metadata. client-go has no bound; a continue token is the longest part.
const MAX_ENVELOPE: usize = 1 << 20;

/// Where in the envelope the splitter stands.
#[derive(Debug, Default)]
struct Outside {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether the text that comes at depth 1 is a member's name, not its value.
    expects_name: bool,
    /// The name of the present member, as far as it could be `items`.
    name: Vec<u8>,
}

impl ListSplitter {
    /// A splitter for items of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            chunks: VecDeque::new(),
            envelope: Vec::new(),
            outside: Outside::default(),
            inside: None,
            partial: BytesMut::new(),
        }
    }

    /// Adds the next bytes of the body.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next whole item, `None` if more bytes are needed first.
    ///
    /// # Errors
    ///
    /// An item, or what stands around the items, is larger than its limit. Nothing more can be read then.
    pub(crate) fn next_item(&mut self) -> Result<Option<Bytes>, FrameTooLarge> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            let item = match &self.inside {
                None => {
                    self.read_envelope(&mut chunk)?;
                    None
                }
                Some(_) => self.read_item(&mut chunk)?,
            };
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }

    /// What stood around the items, once the body has ended: JSON, with the items left out.
    pub(crate) fn envelope(&self) -> &[u8] {
        &self.envelope
    }

    /// Reads on up to the first item, or to the end of the chunk.
    fn read_envelope(&mut self, chunk: &mut Bytes) -> Result<(), FrameTooLarge> {
        let begins = self.outside.beginning_of_items(chunk);
        let envelope = chunk.split_to(begins.unwrap_or(chunk.len()));
        self.extend_envelope(&envelope)?;
        if begins.is_some() {
            self.inside = Some(Scan::default());
        }
        Ok(())
    }

    /// Reads on up to the end of an item, of the items, or of the chunk.
    fn read_item(&mut self, chunk: &mut Bytes) -> Result<Option<Bytes>, FrameTooLarge> {
        let Some(scan) = &mut self.inside else { return Ok(None) };
        if self.partial.is_empty() {
            let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
            let start = chunk.iter().position(|byte| !is_between(byte)).unwrap_or(chunk.len());
            let _ = chunk.split_to(start);
            match chunk.first() {
                None => return Ok(None),
                Some(b']') => {
                    self.inside = None;
                    return Ok(None);
                }
                Some(_) => {}
            }
        }
        let end = scan.end_of_value(chunk);
        let part = chunk.split_to(end.unwrap_or(chunk.len()));
        let size = self.partial.len() + part.len();
        if size > self.limit {
            return Err(FrameTooLarge { size, limit: self.limit });
        }
        if end.is_none() {
            self.partial.extend_from_slice(&part);
            return Ok(None);
        }
        *scan = Scan::default();
        if self.partial.is_empty() {
            return Ok(Some(part));
        }
        let mut item = std::mem::take(&mut self.partial);
        item.extend_from_slice(&part);
        Ok(Some(item.freeze()))
    }

    fn extend_envelope(&mut self, part: &[u8]) -> Result<(), FrameTooLarge> {
        let size = self.envelope.len() + part.len();
        if size > MAX_ENVELOPE {
            return Err(FrameTooLarge { size, limit: MAX_ENVELOPE });
        }
        self.envelope.extend_from_slice(part);
        Ok(())
    }
}

impl Outside {
    /// Goes on over `bytes`, and says where the first item may begin: one past the bracket that opens the member `items`.
    fn beginning_of_items(&mut self, bytes: &[u8]) -> Option<usize> {
        const ITEMS: &[u8] = b"items";
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_text {
                match (self.escaped, byte) {
                    (true, _) => self.escaped = false,
                    (false, b'\\') => self.escaped = true,
                    (false, b'"') => {
                        self.in_text = false;
                        continue;
                    }
                    _ => {}
                }
                if self.depth == 1 && self.expects_name && self.name.len() <= ITEMS.len() {
                    self.name.push(*byte);
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_text = true;
                    if self.depth == 1 && self.expects_name {
                        self.name.clear();
                    }
                }
                b'[' if self.depth == 1 && !self.expects_name && self.name == ITEMS => {
                    // The bracket that closes it is read as part of the envelope.
                    self.depth += 1;
                    return Some(at + 1);
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    self.expects_name = self.depth == 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b':' if self.depth == 1 => self.expects_name = false,
                b',' if self.depth == 1 => self.expects_name = true,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The items and the envelope, the body cut after every so many bytes.
    fn split(body: &str, step: usize) -> (Vec<Value>, Value) {
        let mut splitter = ListSplitter::new(1000);
        let mut items = Vec::new();
        for chunk in body.as_bytes().chunks(step) {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = splitter.next_item().unwrap() {
                items.push(serde_json::from_slice(&item).unwrap());
            }
        }
        (items, serde_json::from_slice(splitter.envelope()).unwrap())
    }

    #[test]
    fn items_are_found_wherever_they_stand() {
        let rest = json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "items": [1]}, "items": []});
        for body in [
            r#"{"kind":"PodList","metadata":{"resourceVersion":"7","items":[1]},"items":[{"a":"]"},{"b":[{"items":[2]}]}]}"#,
            r#" { "items" : [ {"a" : "]"} , {"b":[{"items":[2]}]} ] , "kind":"PodList","metadata":{"resourceVersion":"7","items":[1]} } "#,
        ] {
            for step in 1..=body.len() {
                let (items, envelope) = split(body, step);
                assert_eq!(items, [json!({"a": "]"}), json!({"b": [{"items": [2]}]})], "{step}");
                assert_eq!(envelope, rest, "{step}");
            }
        }
    }

    #[test]
    fn a_body_without_items_is_all_envelope() {
        for body in
            [r#"{"items":null,"kind":"PodList"}"#, r#"{"kind":"Status","message":"items\":["}"#, "[{\"items\":[1]}]"]
        {
            for step in 1..=body.len() {
                let (items, envelope) = split(body, step);
                assert_eq!((items.len(), envelope), (0, serde_json::from_str(body).unwrap()), "{body} {step}");
            }
        }
    }

    #[test]
    fn what_is_too_large_is_told_before_it_is_held() {
        let mut splitter = ListSplitter::new(10);
        splitter.push(Bytes::from_static(br#"{"items":[{"a":"#));
        assert_eq!(splitter.next_item(), Ok(None));
        splitter.push(Bytes::from_static(b"0123456789"));
        assert_eq!(splitter.next_item(), Err(FrameTooLarge { size: 15, limit: 10 }));

        let mut splitter = ListSplitter::new(10);
        splitter.push(vec![b' '; MAX_ENVELOPE + 1].into());
        assert!(splitter.next_item().is_err());
    }

    proptest! {
        #[test]
        fn any_list_is_split_as_serde_reads_it(
            items in prop::collection::vec("[a-z\\[\\]{}:,\"\\\\]{0,9}", 0..6),
            before in "[a-z\\[\\]{}\"\\\\]{0,9}",
            step in 1_usize..20,
        ) {
            let items: Vec<Value> = items.into_iter().map(|text| json!({"x": [text], "items": [1, "]"]})).collect();
            let body = json!({"a": before, "items": items, "metadata": {"continue": before}}).to_string();
            let (found, envelope) = split(&body, step);
            prop_assert_eq!(found, items);
            prop_assert_eq!(envelope, json!({"a": before, "items": [], "metadata": {"continue": before}}));
        }

        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_it_may(body in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
            let mut splitter = ListSplitter::new(20);
            for chunk in body.chunks(step) {
                splitter.push(Bytes::copy_from_slice(chunk));
                while let Ok(Some(item)) = splitter.next_item() {
                    prop_assert!(item.len() <= 20);
                }
            }
        }
    }
}
