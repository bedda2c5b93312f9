//! Long lists in pages.

use pintle_meta::{ApiError, List, ListOptions};
use serde::de::DeserializeOwned;

use crate::Api;

/// The pages of a list, one after the other: client-go's pager.
///
/// All pages are of one revision. The options' own revision is for the first page; the token of a page carries it on.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ListOptions, PartialObject};
/// use pintle_restreq::Api;
///
/// async fn count(pods: &Api<PartialObject>) -> Result<usize, ApiError> {
///     let mut pages = pods.pages(&ListOptions { limit: 100, ..ListOptions::default() });
///     let mut count = 0;
///     while let Some(page) = pages.next().await {
///         count += page?.items.len();
///     }
///     Ok(count)
/// }
/// ```
#[derive(Debug)]
pub struct Pages<T> {
    api: Api<T>,
    /// For the next page; `None` after the last one or an error.
    next: Option<ListOptions>,
}

/// As many objects as client-go asks for in a page.
const PAGE: u32 = 500;

impl<T: DeserializeOwned> Api<T> {
    /// The objects in pages of the options' limit; of 500 if that is 0.
    pub fn pages(&self, options: &ListOptions) -> Pages<T> {
        let limit = if options.limit == 0 { PAGE } else { options.limit };
        Pages { api: self.clone(), next: Some(ListOptions { limit, ..options.clone() }) }
    }

    /// All objects, fetched in pages, so that no single answer is large. Where the pages' revision expires on the way, the list
    /// is fetched anew in one piece.
    ///
    /// # Errors
    ///
    /// However a request fails.
    pub async fn list_all(&self, options: &ListOptions) -> Result<List<T>, ApiError> {
        let mut pages = self.pages(options);
        let mut whole: Option<List<T>> = None;
        while let Some(page) = pages.next().await {
            match (page, &mut whole) {
                (Ok(page), None) => whole = Some(page),
                (Ok(page), Some(whole)) => {
                    whole.metadata = page.metadata;
                    whole.items.extend(page.items);
                }
                (Err(error), Some(_)) if error.is_expired() => {
                    let at_once = ListOptions { limit: 0, continue_token: String::new(), ..options.clone() };
                    return self.list(&at_once).await;
                }
                (Err(error), _) => return Err(error),
            }
        }
        match whole {
            Some(whole) => Ok(whole),
            // There is always a first page, or an error in its place.
            None => self.list(options).await,
        }
    }
}

impl<T: DeserializeOwned> Pages<T> {
    /// The next page; `None` after the last one.
    ///
    /// # Errors
    ///
    /// However a request fails; `Expired` if that was the pages' revision. There are no more pages then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the pages where they were.
    pub async fn next(&mut self) -> Option<Result<List<T>, ApiError>> {
        let options = self.next.clone()?;
        let page = self.api.list(&options).await;
        self.next = match &page {
            Ok(List { metadata, .. }) if !metadata.continue_token.is_empty() => Some(ListOptions {
                continue_token: metadata.continue_token.clone(),
                resource_version: String::new(),
                resource_version_match: None,
                ..options
            }),
            _ => None,
        };
        Some(page)
    }
}
