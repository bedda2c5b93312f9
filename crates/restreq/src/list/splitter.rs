//! Splits the body of a list into items while it arrives.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use pintle_meta::RawObject;

use crate::json::{Container, Json, Token};
use crate::oversized::BoundedBuffer;

/// Splits the body of a list into items while it arrives. Only the current item and the envelope (the JSON around the
/// items) are kept in memory.
///
/// For a complete body, the items and the envelope are the same as with a JSON parser. A `ListSplitter` skips items
/// larger than the limit, and returns an error at the first invalid byte. Items that arrive in a single chunk are not
/// copied. A `ListSplitter` does no I/O.
pub(crate) struct ListSplitter {
    json: Json,
    chunks: VecDeque<Bytes>,
    offset: u64,
    envelope: Vec<u8>,
    place: Place,
    item: BoundedBuffer,
}

#[derive(PartialEq)]
enum Place {
    /// The position of the scanner is outside of the items. `names_items` is `true` if the current field is `items`.
    Outside {
        names_items: bool,
    },
    Items,
}

/// The maximum size of the envelope in bytes. The longest field in an envelope is the continue token, whose size
/// client-go does not limit.
const MAX_ENVELOPE: usize = 1 << 20;

/// The nesting depths of the fields of a list (`MEMBER`) and of its items (`ITEM`).
const MEMBER: usize = 1;
const ITEM: usize = 2;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    TooLarge { limit: usize },
    NoJson { offset: u64 },
    Ended { offset: u64 },
}

impl ListSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            json: Json::new(MEMBER),
            chunks: VecDeque::new(),
            offset: 0,
            envelope: Vec::new(),
            place: Place::Outside { names_items: false },
            item: BoundedBuffer::items(limit),
        }
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// Returns the next item. Returns `None` until another complete item has arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is invalid JSON, or if the envelope is too large. The `ListSplitter` must not be
    /// used after an error.
    pub(crate) fn next_item(&mut self) -> Result<Option<RawObject>, Fault> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            let item = self.read(&mut chunk)?;
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }

    /// Returns the envelope. Call this method only after the end of the body.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is incomplete.
    pub(crate) fn finish(&self) -> Result<&[u8], Fault> {
        if self.json.is_whole() { Ok(&self.envelope) } else { Err(Fault::Ended { offset: self.offset }) }
    }

    /// Scans to the end of an item, to the start or end of the `items` array, or to the end of the chunk.
    fn read(&mut self, chunk: &mut Bytes) -> Result<Option<RawObject>, Fault> {
        let mut at = 0;
        let token = loop {
            let next = self.json.next(&chunk[at..], ITEM);
            let next = next.map_err(|place| Fault::NoJson { offset: self.offset + (at + place) as u64 })?;
            let Some((taken, token)) = next else {
                at = chunk.len();
                break None;
            };
            at += taken;
            if self.is_boundary(token) {
                break Some(token);
            }
        };
        let mut part = chunk.split_to(at);
        self.offset += at as u64;
        if let Place::Outside { .. } = self.place {
            if token.is_some() {
                self.place = Place::Items;
            }
            return self.extend_envelope(&part).map(|()| None);
        }
        if self.json.depth() == MEMBER && token.is_some() {
            self.place = Place::Outside { names_items: false };
            return self.extend_envelope(b"]").map(|()| None);
        }
        if self.item.is_empty() {
            let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
            let start = part.iter().position(|byte| !is_between(byte)).unwrap_or(part.len());
            let _ = part.split_to(start);
        }
        if token.is_none() {
            self.item.push(&part);
            return Ok(None);
        }
        Ok(Some(match self.item.finish(part) {
            Ok(whole) => RawObject::Json(whole),
            Err(found) => found.object.into(),
        }))
    }

    fn is_boundary(&mut self, token: Token) -> bool {
        match (&mut self.place, token, self.json.depth()) {
            (Place::Outside { names_items }, Token::Name, MEMBER) => {
                *names_items = self.json.text() == Some(b"items");
                false
            }
            (Place::Outside { names_items }, Token::Open(Container::Array), ITEM) => *names_items,
            (Place::Outside { .. }, ..) => false,
            (Place::Items, Token::Open(_) | Token::Name, _) => false,
            (Place::Items, Token::Close | Token::Null | Token::Scalar | Token::Text, _) => true,
        }
    }

    fn extend_envelope(&mut self, part: &[u8]) -> Result<(), Fault> {
        if self.envelope.len() + part.len() > MAX_ENVELOPE {
            return Err(Fault::TooLarge { limit: MAX_ENVELOPE });
        }
        self.envelope.extend_from_slice(part);
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "the JSON around the items exceeds the limit of {limit} bytes"),
            Self::NoJson { offset } => write!(f, "invalid JSON at byte {offset}"),
            Self::Ended { offset: 0 } => f.write_str("the response has no body"),
            Self::Ended { offset } => write!(f, "EOF at byte {offset}, before the end of the list"),
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::{ObjectKey, Oversized};
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::{Value, json};

    use super::*;

    /// Splits a body that arrives in chunks of `step` bytes. Returns the items and the envelope.
    fn read(body: &[u8], step: usize, limit: usize) -> Result<(Vec<RawObject>, Vec<u8>), Fault> {
        let mut splitter = ListSplitter::new(limit);
        let mut items = Vec::new();
        for chunk in body.chunks(step) {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = splitter.next_item()? {
                items.push(item);
            }
        }
        Ok((items, splitter.finish()?.to_vec()))
    }

    fn split(body: &str, step: usize) -> (Vec<Value>, Value) {
        let (items, envelope) = read(body.as_bytes(), step, 1000).unwrap();
        let items = items.iter().map(|item| item.decode().unwrap()).collect();
        (items, serde_json::from_slice(&envelope).unwrap())
    }

    #[test]
    fn items_are_found_at_any_position() {
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
    fn body_without_items_is_all_envelope() {
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
    fn invalid_json_is_rejected_at_the_first_invalid_byte() {
        for (body, offset) in [
            (r#"{"items":[{"a":1} {"b":2}]}"#, 18),
            (r#"{"items":[{"a":1},,{"b":2}]}"#, 18),
            (r#"{"items":[,{"a":1}]}"#, 10),
            (r#"{"items":[{"a":1},]}"#, 18),
            (r#"{"items":[{"a":1}}]}"#, 17),
            (r#"{"items":[{"a":[1}]}]}"#, 17),
            (r#"{"items":[1 2]}"#, 12),
            (r#"{"items":[{"a":01}]}"#, 16),
            (r#"{"items":[]}]"#, 12),
            (r#"{"items":[]"kind":"PodList"}"#, 11),
            (r#"{"kind":"PodList" "items":[]}"#, 18),
            ("upstream connect error", 0),
        ] {
            for step in 1..=body.len() {
                assert_eq!(read(body.as_bytes(), step, 1000), Err(Fault::NoJson { offset }), "{body} {step}");
            }
        }
        for body in ["", r#"{"items":[{"a":1}"#, r#"{"items":[]"#, r#"{"items":[{"a":"#] {
            let offset = body.len() as u64;
            assert_eq!(read(body.as_bytes(), 1, 1000), Err(Fault::Ended { offset }), "{body}");
        }
    }

    #[test]
    fn item_above_the_limit_is_skipped_and_named() {
        let big = "x\\\"".repeat(200);
        let managed = r#"[{"metadata":{"name":"not this","namespace":"nor this"}}]"#;
        let key = Some(ObjectKey::new("team", "a"));
        let rows = [
            (format!(r#"{{"metadata":{{"name":"a","namespace":"team"}},"data":"{big}"}}"#), key.clone()),
            (
                format!(r#"{{"data":{{"metadata":{{"name":"{big}"}}}},"metadata":{{"namespace":"team","name":"a"}}}}"#),
                key.clone(),
            ),
            (
                format!(
                    r#"{{"metadata":{{"annotations":{{"name":"{big}"}},"managedFields":{managed},"name":"\u0061","namespace":"te\u0061m"}}}}"#
                ),
                key,
            ),
            (format!(r#"{{"metadata":{{"name":"a"}},"data":"{big}"}}"#), Some(ObjectKey::cluster("a"))),
            (format!(r#"{{"metadata":{{"name":"a","namespace":""}},"data":"{big}"}}"#), Some(ObjectKey::cluster("a"))),
            (
                format!(r#"{{"metadata":{{"namespace":null,"name":"a"}},"data":"{big}"}}"#),
                Some(ObjectKey::cluster("a")),
            ),
            (format!(r#"{{"metadata":{{"name":"a","namespace":false}},"data":"{big}"}}"#), None),
            (format!(r#"{{"metadata":{{"name":"a","namespace":{{}}}},"data":"{big}"}}"#), None),
            (format!(r#"{{"metadata":{{"name":"a","namespace":["b"]}},"data":"{big}"}}"#), None),
            (format!(r#"{{"metadata":{{"name":"a","namespace":"{}"}}}}"#, big.repeat(3)), None),
            (format!(r#"{{"metadata":{{"name":null,"namespace":"b"}},"data":"{big}"}}"#), None),
            (format!(r#"{{"metadata":{{"name":"a","namespace":7}},"data":"{big}"}}"#), None),
            (format!(r#"{{"metadata":{{"name":"{}"}}}}"#, big.repeat(3)), None),
            (format!(r#"{{"metadata":[{{"name":"a"}}],"name":"b","data":"{big}"}}"#), None),
        ];
        for (item, key) in rows {
            let body = format!(r#"{{"items":[{{"a":1}}, {item} ,{{"b":2}}],"metadata":{{}}}}"#);
            let oversized = Oversized { key, size: item.len() as u64, limit: 100, ..Oversized::default() };
            let [a, b] = [r#"{"a":1}"#, r#"{"b":2}"#].map(|json| RawObject::Json(json.into()));
            for step in (1..50).chain([body.len()]) {
                let (items, envelope) = read(body.as_bytes(), step, 100).unwrap();
                assert_eq!(items, [a.clone(), oversized.clone().into(), b.clone()], "{step} {item}");
                assert_eq!(envelope, br#"{"items":[],"metadata":{}}"#, "{step} {item}");
            }
        }
        let list =
            format!(r#"{{"items":[{{"metadata":{{"uid":"u","resourceVersion":"7","name":"a"}},"data":"{big}"}}]}}"#);
        let (items, _) = read(list.as_bytes(), 7, 100).unwrap();
        let [RawObject::Oversized(found)] = &*items else { panic!("{items:?}") };
        assert_eq!((found.uid.as_str(), found.resource_version.as_str()), ("u", "7"));
    }

    #[test]
    fn envelope_size_is_bounded() {
        let mut splitter = ListSplitter::new(10);
        splitter.push(vec![b' '; MAX_ENVELOPE + 1].into());
        assert_eq!(splitter.next_item(), Err(Fault::TooLarge { limit: MAX_ENVELOPE }));
    }

    /// Generates lists. Most of the generated lists lack a few brackets, quotes, colons or commas, or contain
    /// additional bytes before them.
    fn almost_a_list() -> impl Strategy<Value = Vec<u8>> {
        let item = prop_oneof![
            "[a-z\\[\\]{}:,\"\\\\]{0,9}".prop_map(|text| json!({"x": [text], "items": [1, "]"]})),
            any::<f64>().prop_map(|number| json!({"x": number, "y": [[], {}, null, true, "\u{7}"]})),
            Just(json!(-1)),
            Just(json!([false])),
        ];
        let items = prop::collection::vec(item, 0..5);
        let edit = (
            any::<prop::sample::Index>(),
            prop::sample::select(b"{}[]:,,,,\"\\ 0-.e1n\n\x01\xff".to_vec()),
            any::<bool>(),
        );
        (items, "[a-z\\[\\]{}\"\\\\]{0,9}", any::<bool>(), prop::collection::vec(edit, 0..4)).prop_map(
            |(items, token, pretty, edits)| {
                let list = json!({"kind": "List", "items": items, "metadata": {"continue": token}});
                let text = if pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) };
                let mut text = text.unwrap();
                for (place, byte, puts_in) in edits {
                    let marks: Vec<usize> = (0..text.len()).filter(|at| b"{}[]:,\"".contains(&text[*at])).collect();
                    let place = if marks.is_empty() { place.index(text.len()) } else { *place.get(&marks) };
                    if puts_in {
                        text.insert(place, byte);
                    } else {
                        text.remove(place);
                    }
                }
                text
            },
        )
    }

    proptest! {
        #[test]
        fn splitter_agrees_with_serde(body in almost_a_list(), limit in 1_usize..60) {
            let is_json = serde_json::from_slice::<IgnoredAny>(&body).is_ok();
            let whole = read(&body, body.len(), usize::MAX);
            prop_assert_eq!(whole.is_ok(), is_json, "{:?} {:?}", whole, Bytes::from(body));
            for step in 1..body.len() {
                prop_assert_eq!(&read(&body, step, usize::MAX), &whole, "{}", step);
                prop_assert_eq!(&read(&body, step, limit).err(), &whole.clone().err(), "{}, limited", step);
            }
            if let (Ok((items, envelope)), Ok(mut list)) = (whole, serde_json::from_slice::<Value>(&body)) {
                let items: Vec<Value> = items.iter().map(|item| item.decode().unwrap()).collect();
                match list.get_mut("items") {
                    Some(Value::Array(found)) => prop_assert_eq!(std::mem::take(found), items),
                    _ => prop_assert!(items.is_empty()),
                }
                prop_assert_eq!(serde_json::from_slice::<Value>(&envelope).unwrap(), list);
            }
        }

        #[test]
        fn splitter_never_panics_or_exceeds_its_limit(body in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
            let mut splitter = ListSplitter::new(20);
            for chunk in body.chunks(step) {
                splitter.push(Bytes::copy_from_slice(chunk));
                while let Ok(Some(item)) = splitter.next_item() {
                    prop_assert!(!matches!(item, RawObject::Json(json) if json.len() > 20));
                }
            }
        }
    }
}
