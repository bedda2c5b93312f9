//! Reads lists in pages.

use std::fmt;
use std::num::NonZeroUsize;

use pintle_meta::__private::ContinueTokens;
use pintle_meta::{ApiError, List, ListOptions};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::Api;

/// The pages of a list, like client-go's pager.
///
/// All pages are from the same revision. The client sends `resource_version` only with the first request. In later
/// requests, the continue token selects the revision.
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
pub struct Pages<T>(Source<T>);

enum Source<T> {
    Server(Box<Cursor<T>>),
    Task(Ahead<T>),
}

struct Cursor<T> {
    api: Api<T>,
    /// The options for the next page, or `None` if the last page or an error was returned.
    next: Option<ListOptions>,
    tokens: ContinueTokens,
}

/// A task that requests pages in advance. The task is stopped when the `Ahead` is dropped.
struct Ahead<T> {
    pages: mpsc::Receiver<Result<List<T>, ApiError>>,
    /// The task, or `None` if its result has been returned.
    task: Option<JoinHandle<()>>,
}

/// The default page size, as in client-go.
const PAGE_SIZE: u32 = 500;

impl<T: DeserializeOwned> Api<T> {
    /// Lists objects in pages. The page size is the `limit` in `options`, or 500 if the limit is 0.
    pub fn pages(&self, options: &ListOptions) -> Pages<T> {
        let limit = if options.limit == 0 { PAGE_SIZE } else { options.limit };
        let next = Some(ListOptions { limit, ..options.clone() });
        Pages(Source::Server(Box::new(Cursor { api: self.clone(), next, tokens: ContinueTokens::default() })))
    }

    pub(crate) fn one_page(&self, options: &ListOptions) -> Pages<T> {
        let next = Some(ListOptions { limit: 0, ..options.clone() });
        Pages(Source::Server(Box::new(Cursor { api: self.clone(), next, tokens: ContinueTokens::default() })))
    }

    /// Lists all objects in several requests, which keeps each response small. If the revision expires before the last
    /// page, all objects are listed again in one request.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
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
            // Unreachable, because the first call of `next` always returns a page or an error.
            None => self.list(options).await,
        }
    }
}

impl<T: DeserializeOwned> Pages<T> {
    /// Returns the next page, or `None` after the last page.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. The error is `Expired` if the server no longer has the revision of the
    /// pages. A server that sends the same continue token twice, or 1,000 empty pages in a row, also causes an error,
    /// because the list would never end. After an error, all further calls of `next` return `None`.
    ///
    /// # Panics
    ///
    /// Panics if the task from [`read_ahead`](Self::read_ahead) panicked while it was decoding a page.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no page is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<List<T>, ApiError>> {
        match &mut self.0 {
            Source::Server(cursor) => cursor.next().await,
            Source::Task(ahead) => ahead.next().await,
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> Pages<T> {
    /// Starts a task that requests the next pages while the caller processes the current page. The task requests up to
    /// `pages` pages in advance. The task is stopped when the returned `Pages` is dropped.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    #[must_use]
    pub fn read_ahead(self, pages: NonZeroUsize) -> Self {
        let Source::Server(mut cursor) = self.0 else { return self };
        let (sender, receiver) = mpsc::channel(pages.get().min(Semaphore::MAX_PERMITS));
        let task = tokio::spawn(async move {
            // Request a page only if the channel has a free slot, because the task would otherwise buffer one page more
            // than `pages`.
            while let Ok(room) = sender.reserve().await
                && let Some(page) = cursor.next().await
            {
                room.send(page);
            }
        });
        Self(Source::Task(Ahead { pages: receiver, task: Some(task) }))
    }
}

impl<T: DeserializeOwned> Cursor<T> {
    async fn next(&mut self) -> Option<Result<List<T>, ApiError>> {
        let options = self.next.clone()?;
        let page = self.api.list(&options).await.and_then(|page| {
            self.tokens.add(&page.metadata.continue_token, page.items.len())?;
            Ok(page)
        });
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

impl<T> Ahead<T> {
    async fn next(&mut self) -> Option<Result<List<T>, ApiError>> {
        let page = self.pages.recv().await;
        if page.is_none()
            && let Some(task) = &mut self.task
        {
            let end = task.await;
            self.task = None;
            // Propagate a panic of the task, because the list would otherwise look complete without the missing pages.
            if let Err(error) = end
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        page
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pages");
        match &self.0 {
            Source::Server(cursor) => shown.field("api", &cursor.api).field("next", &cursor.next).finish(),
            Source::Task(_) => shown.finish_non_exhaustive(),
        }
    }
}
