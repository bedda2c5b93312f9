//! Detects paged lists that would never end.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::error::ApiError;

/// The continue tokens of a list. A repeated token or too many empty pages cause an error, because the list would never
/// end.
#[derive(Debug, Default)]
pub struct ContinueTokens {
    hasher: RandomState,
    /// The hashes of all tokens so far, which take less memory than the tokens.
    seen: HashSet<u64>,
    /// The number of consecutive empty pages.
    empty: u32,
}

/// The maximum number of consecutive empty pages that name a next page. kube-apiserver fills each page that is not the
/// last one. Another server may return an empty page if a selector rejects all objects of this page. With the usual page
/// size of 500, a server reaches this limit only if the selector rejects half a million consecutive objects.
const EMPTY_PAGES: u32 = 1_000;

impl ContinueTokens {
    /// Adds the continue token of a page that contains `items` objects. `token` is empty if the page is the last page.
    ///
    /// # Errors
    ///
    /// Returns an error if an earlier page had the same token, or if the last 1,000 pages were empty.
    pub fn add(&mut self, token: &str, items: usize) -> Result<(), ApiError> {
        if token.is_empty() {
            return Ok(());
        }
        if !self.seen.insert(self.hasher.hash_one(token)) {
            return Err(ApiError::decode("the server repeats a continue token, so the list would have no end"));
        }
        self.empty = if items == 0 { self.empty + 1 } else { 0 };
        if self.empty >= EMPTY_PAGES {
            let text =
                format!("the server has returned {EMPTY_PAGES} empty pages in a row, so the list may have no end");
            return Err(ApiError::decode(text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_token_is_an_error_except_the_last() {
        let mut tokens = ContinueTokens::default();
        for token in ["a", "b", "", ""] {
            assert!(tokens.add(token, 1).is_ok(), "{token}");
        }
        assert!(tokens.add("a", 1).unwrap_err().to_string().contains("repeats a continue token"));
    }

    #[test]
    fn only_consecutive_empty_pages_are_limited() {
        let mut tokens = ContinueTokens::default();
        let mut add = |page: u32, items| tokens.add(&page.to_string(), items);
        assert!((0..999).all(|page| add(page, 0).is_ok()));
        assert!(add(999, 1).is_ok());
        assert!((1_000..1_999).all(|page| add(page, 0).is_ok()));
        assert!(add(1_999, 0).unwrap_err().to_string().contains("1000 empty pages"));
    }
}
