//! Successful responses.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use pintle_meta::{ApiError, DecodeError, List, RequestLine, TypeMeta};
use serde::de::DeserializeOwned;

use crate::error::{rejected, unreadable};
use crate::warning::Warning;
use crate::{list, status};

/// A successful response whose body is completely in memory.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, PartialObject};
/// use pintle_restreq::RestClient;
///
/// async fn create(client: &RestClient, map: &serde_json::Value) -> Result<PartialObject, ApiError> {
///     let request = client.post().abs_path(["/api/v1"]).namespace("team-a").resource("configmaps").json(map);
///     let response = request.send().await?;
///     println!("{}, {} bytes", response.status(), response.body().len());
///     for warning in response.warnings() {
///         println!("the server warns: {warning}");
///     }
///     response.into()
/// }
/// ```
#[derive(Clone)]
pub struct Response {
    pub(crate) request: Arc<RequestLine>,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) warnings: Vec<Warning>,
}

impl Response {
    /// Returns the HTTP status code, which is between 200 and 206.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns `true` if the status is 201, which means that an object was created.
    pub fn was_created(&self) -> bool {
        self.status == StatusCode::CREATED
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the server's warnings, which have already been passed to the warning handler.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Decodes the body.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Status`](pintle_meta::ErrorKind::Status) if the body is a `Status` object that describes a
    /// failure. Returns [`ErrorKind::Decode`](pintle_meta::ErrorKind::Decode) if the body is empty or cannot be decoded
    /// as `T`.
    pub fn into<T: DeserializeOwned>(self) -> Result<T, ApiError> {
        self.check()?;
        serde_json::from_slice(&self.body).map_err(|error| unreadable(&self.request, DecodeError::from(error)))
    }

    /// Decodes a list object by object, which avoids a second copy of the body. If the list does not fit into memory,
    /// use [`Request::list`](crate::Request::list) instead.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`into`](Self::into). A decoding error contains the index of the object in the list
    /// and, if possible, the name of the object.
    pub fn into_list<T: DeserializeOwned>(self) -> Result<List<T>, ApiError> {
        self.check()?;
        let (items, metadata) = list::split(self.body.clone()).map_err(|message| unreadable(&self.request, message))?;
        let items = items.iter().enumerate().map(|(at, item)| list::decode(at, item)).collect::<Result<_, _>>();
        Ok(List {
            types: TypeMeta::default(),
            metadata,
            items: items.map_err(|message| unreadable(&self.request, message))?,
        })
    }

    fn check(&self) -> Result<(), ApiError> {
        if self.body.is_empty() {
            let kind = self.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let kind = kind.unwrap_or("none");
            let message = format!("0-length response with status {} and content type {kind}", self.status);
            return Err(unreadable(&self.request, message));
        }
        match status::failure_in(&self.body) {
            Some(status) => Err(rejected(&self.request, status, &self.headers, self.body.clone())),
            None => Ok(()),
        }
    }
}

// Omits the body and the headers, because they may contain secrets, tokens or cookies.
pintle_meta::debug_struct!(Response |self| {
    request = format_args!("{}", self.request),
    status,
    body = format_args!("[{} bytes]", self.body.len()),
    warnings, ..
});
