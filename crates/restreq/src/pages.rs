//! Long lists in pages.

use std::fmt;
use std::num::NonZeroUsize;

use pintle_meta::{ApiError, List, ListOptions};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

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
pub struct Pages<T>(Source<T>);

/// Where the next page comes from.
enum Source<T> {
    Server(Cursor<T>),
    Task(Ahead<T>),
}

/// Where in a list a reader stands.
struct Cursor<T> {
    api: Api<T>,
    /// For the next page; `None` after the last one or an error.
    next: Option<ListOptions>,
}

/// Pages that a task has fetched already. It ends when this is dropped.
struct Ahead<T> {
    pages: mpsc::Receiver<Result<List<T>, ApiError>>,
    /// None once its end has been seen.
    task: Option<JoinHandle<()>>,
}

/// As many objects as client-go asks for in a page.
const PAGE: u32 = 500;

impl<T: DeserializeOwned> Api<T> {
    /// The objects in pages of the options' limit; of 500 if that is 0.
    pub fn pages(&self, options: &ListOptions) -> Pages<T> {
        let limit = if options.limit == 0 { PAGE } else { options.limit };
        let next = Some(ListOptions { limit, ..options.clone() });
        Pages(Source::Server(Cursor { api: self.clone(), next }))
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
    /// However a request fails; `Expired` if that was the pages' revision; that the server names a page as the one after itself, by
    /// which the list would have no end. There are no more pages then.
    ///
    /// # Panics
    ///
    /// Where decoding a page panicked in the task of [`read_ahead`](Self::read_ahead).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the pages where they were.
    pub async fn next(&mut self) -> Option<Result<List<T>, ApiError>> {
        match &mut self.0 {
            Source::Server(cursor) => cursor.next().await,
            Source::Task(ahead) => ahead.next().await,
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> Pages<T> {
    /// Fetches in a task of its own, which begins now, while the caller is at work on the pages before: at most so many pages are held
    /// that the caller has not taken. The task ends with the pages.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn read_ahead(self, pages: NonZeroUsize) -> Self {
        let Source::Server(mut cursor) = self.0 else { return self };
        let (sender, receiver) = mpsc::channel(pages.get().min(Semaphore::MAX_PERMITS));
        let task = tokio::spawn(async move {
            // Room first: a page that nobody has room for is not asked for.
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
            let token = &page.metadata.continue_token;
            if !token.is_empty() && *token == options.continue_token {
                return Err(ApiError::decode("the page names itself as the next one, so the list would have no end"));
            }
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
            // As the end of a list it would be a wrong one.
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
            Source::Server(Cursor { api, next }) => shown.field("api", api).field("next", next).finish(),
            Source::Task(_) => shown.finish_non_exhaustive(),
        }
    }
}
