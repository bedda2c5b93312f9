//! Requests that return only the metadata of objects, or that return a table.

use http::header::ACCEPT;
use pintle_meta::{ApiError, ListMeta, ListOptions, PartialObject, TypeMeta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Api;
use super::options::with_list_options;
use crate::error::Error;

/// The form in which a client requests objects: whole objects, only their metadata, or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Whole,
    Metadata,
}

// A server that does not support metadata-only responses sends whole objects. The decoder then skips all fields except
// the metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

impl Representation {
    /// Returns the `Accept` header for reading objects or events in this form. `None` means the client's default
    /// header.
    pub(super) fn object(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Metadata => Some(METADATA),
        }
    }

    pub(super) fn list(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Metadata => Some(METADATA_LIST),
        }
    }
}

/// A table of objects, as `kubectl get` prints it. The server chooses the columns and computes the cells.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ListOptions};
/// use pintle_restreq::Api;
///
/// async fn show<T>(api: &Api<T>) -> Result<(), ApiError> {
///     let table = api.table(&ListOptions::default()).await?;
///     let shown: Vec<bool> = table.columns.iter().map(|column| column.priority == 0).collect();
///     for row in &table.rows {
///         let cells = row.cells.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell.to_string());
///         println!("{}", cells.collect::<Vec<_>>().join("  "));
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Table {
    /// The metadata of the list, such as the continue token. Tables have pages, like lists.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// The columns of the table, in the same order as the cells of each row. Only the first page of a list contains the
    /// columns.
    #[serde(default, rename = "columnDefinitions", deserialize_with = "or_empty")]
    pub columns: Vec<TableColumn>,
    /// The rows of the table, ordered by object key. Each row describes one object.
    #[serde(default, deserialize_with = "or_empty")]
    pub rows: Vec<TableRow>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct TableColumn {
    /// The heading.
    #[serde(default)]
    pub name: String,
    /// The OpenAPI type: `string`, `integer`, `number`, `boolean` or `array`.
    #[serde(default, rename = "type")]
    pub column_type: String,
    /// The format of the values, such as `date`. The column that contains the object's name has the format `name`.
    #[serde(default)]
    pub format: String,
    /// A human-readable description of the column.
    #[serde(default)]
    pub description: String,
    /// The priority of the column. A column with priority 0 is always shown. A column with a higher number is less
    /// important and is only shown in wide output.
    #[serde(default)]
    pub priority: i32,
}

/// A row of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct TableRow {
    /// The cells, one per column.
    #[serde(default, deserialize_with = "or_empty")]
    pub cells: Vec<Value>,
    /// The metadata of the object in this row.
    #[serde(default, deserialize_with = "or_empty")]
    pub object: PartialObject,
}

impl<T> Api<T> {
    /// Returns an `Api` that reads only the metadata of the same objects, like client-go's metadata client. In all
    /// responses, including lists and watches, the server sends only the metadata. An informer that uses the returned
    /// `Api` stores only the metadata.
    ///
    /// The returned `Api` supports reads, patches and deletes. Creating or replacing an object returns an error without
    /// sending a request, because such a write would delete all fields outside of the metadata.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, ListOptions};
    /// use pintle_restreq::Api;
    ///
    /// async fn owners<T>(api: &Api<T>) -> Result<usize, ApiError> {
    ///     let objects = api.metadata_only().list(&ListOptions::default()).await?.items;
    ///     Ok(objects.iter().map(|object| object.metadata.owner_references.len()).sum())
    /// }
    /// ```
    pub fn metadata_only(&self) -> Api<PartialObject> {
        Api { representation: Representation::Metadata, ..self.cast() }
    }

    /// Returns one page of objects as a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. The error `NotAcceptable` means that the server cannot return this
    /// resource as a table.
    pub async fn table(&self, options: &ListOptions) -> Result<Table, ApiError> {
        let request = self.on_collection(self.client.get().header(ACCEPT.as_str(), TABLE));
        let request = with_list_options(request, options);
        let response = request.send().await?;
        let types: TypeMeta = response.clone().into()?;
        if types.kind != "Table" {
            let message = format!("expected a Table, got kind {:?}", types.kind);
            return Err(Error::Decode { request: request.line(), message: message.into() }.into());
        }
        Ok(response.into()?)
    }
}

/// Decodes `null` as an empty list, because Go encodes a nil slice as `null`.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
