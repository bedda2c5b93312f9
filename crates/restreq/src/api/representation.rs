//! Requests for metadata or for tables instead of whole objects.

use http::header::ACCEPT;
use pintle_meta::__private::or_empty;
use pintle_meta::{ApiError, ListMeta, ListOptions, PartialObject, TypeMeta};
use serde::Deserialize;
use serde_json::Value;

use super::Api;
use super::options::with_list_options;
use crate::error::unreadable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Whole,
    Metadata,
}

// The second media type is for servers that do not support metadata-only responses. The decoder skips all fields except
// the metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

impl Representation {
    /// Returns the `Accept` header for objects and watch events. `None` means that the default header of the client is
    /// used.
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

/// A table that describes objects, as printed by `kubectl get`. The server chooses the columns and computes the cells.
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
    /// The list metadata. Tables have pages and continue tokens, like lists.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// The columns, in the same order as the cells of each row. In a paginated list, only the first page contains the
    /// columns.
    #[serde(default, rename = "columnDefinitions", deserialize_with = "or_empty")]
    pub columns: Vec<TableColumn>,
    /// The rows, ordered by the keys of the objects. Each row describes one object.
    #[serde(default, deserialize_with = "or_empty")]
    pub rows: Vec<TableRow>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct TableColumn {
    /// The heading of the column.
    pub name: String,
    /// The type of the cells, as in OpenAPI: `string`, `integer`, `number`, `boolean` or `array`.
    #[serde(rename = "type")]
    pub column_type: String,
    /// The format of the cells, as in OpenAPI, such as `date`. The column that contains the name of the object has the
    /// format `name`.
    pub format: String,
    /// A human-readable description of the column.
    pub description: String,
    /// The column's priority. Columns with a priority of 0 are always shown. Columns with a higher priority are shown
    /// only in wide output.
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
    /// Returns an `Api` for the metadata of the same objects, like the metadata client of client-go. The server sends
    /// only metadata in its responses, including lists and watches. An informer that uses the returned `Api` stores
    /// only metadata.
    ///
    /// The returned `Api` supports reads, patches and deletes. `create` and `update` return an error without sending a
    /// request, because they would delete all other fields of the object.
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
    /// Returns an error if the request fails. The error is `NotAcceptable` if the server does not support tables for
    /// this resource.
    pub async fn table(&self, options: &ListOptions) -> Result<Table, ApiError> {
        let request = self.on_collection(self.client.get().header(ACCEPT.as_str(), TABLE));
        let request = with_list_options(request, options);
        let response = request.send().await?;
        let types: TypeMeta = response.clone().into()?;
        if types.kind != "Table" {
            let message = format!("expected a Table, got kind {:?}", types.kind);
            return Err(unreadable(&request.line(), message));
        }
        response.into()
    }
}
