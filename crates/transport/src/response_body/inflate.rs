//! Streaming gzip decompression.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use http_body::{Body as _, Frame};

use super::ResponseBody;
use crate::error::BoxError;

/// A gzip body that is decompressed while the caller reads it. Each frame contains at most about 64 KiB of
/// decompressed data, for any compression ratio. The reader must limit the body's total size.
pub(super) struct Inflate {
    body: ResponseBody,
    input: Bytes,
    /// The decoder, or `None` before the first input, at the end, and after an error.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    is_over: bool,
}

impl Inflate {
    pub(super) fn new(body: ResponseBody) -> Self {
        Self { body, input: Bytes::new(), decoder: None, is_over: false }
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while !self.is_over {
            let made = if self.input.is_empty() {
                match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        self.input = frame.into_data().unwrap_or_default();
                        continue;
                    }
                    Some(Err(error)) => Err(error),
                    None => {
                        self.is_over = true;
                        // A body that is not empty must end at the end of the gzip stream.
                        self.decoder.take().map_or(Ok(Vec::new()), MultiGzDecoder::finish).map_err(BoxError::from)
                    }
                }
            } else {
                let decoder = self.decoder.get_or_insert_with(|| MultiGzDecoder::new(Vec::new()));
                go_on(decoder, &mut self.input).map_err(BoxError::from)
            };
            match made {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes.into())))),
                Err(error) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}

fn go_on(decoder: &mut MultiGzDecoder<Vec<u8>>, input: &mut Bytes) -> io::Result<Vec<u8>> {
    let taken = decoder.write(input)?;
    input.advance(taken);
    if input.is_empty() {
        // Decompress all buffered data before reading the next input.
        decoder.flush()?;
    } else if taken == 0 && decoder.get_ref().is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the data after the end of the gzip stream is not another gzip stream",
        ));
    }
    Ok(std::mem::take(decoder.get_mut()))
}

/// Decompresses up to `most` bytes of a body that consists of `pieces`.
#[cfg(any(test, fuzzing))]
pub(crate) fn inflated<'a>(pieces: impl Iterator<Item = &'a [u8]>, most: usize) -> io::Result<Vec<u8>> {
    let mut decoder = MultiGzDecoder::new(Vec::new());
    let mut whole = Vec::new();
    for piece in pieces {
        let mut input = Bytes::copy_from_slice(piece);
        while !input.is_empty() {
            let made = go_on(&mut decoder, &mut input)?;
            assert!(made.len() <= 128 << 10, "{} bytes at once", made.len());
            whole.extend(made);
            if whole.len() >= most {
                whole.truncate(most);
                return Ok(whole);
            }
        }
    }
    whole.extend(decoder.finish()?);
    Ok(whole)
}
