//! Opens TCP connections to hosts that have several addresses ("Happy Eyeballs", RFC 8305). If connecting to one
//! address takes long, the client also tries the next address.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::LookUps;

/// The time after which the client also tries the next address.
const HEAD_START: Duration = Duration::from_millis(250);
/// The timeout for connecting to a single address.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the first address that accepts a connection. If all addresses fail, the error lists the failures.
pub(super) async fn connect(host: &str, port: u16, metrics: Option<&LookUps>) -> io::Result<TcpStream> {
    // Do not record a DNS lookup if the host is an IP address.
    let looking_up = metrics.filter(|_| host.parse::<IpAddr>().is_err()).map(LookUps::start);
    let addresses = tokio::net::lookup_host((host, port)).await;
    drop(looking_up);
    race(in_turns(addresses?.collect()), TcpStream::connect).await
}

/// Alternates between IPv4 and IPv6 addresses, starting with the family of the first address from the resolver. If one
/// family does not work, connecting takes only one [`HEAD_START`] longer.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == preferred);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut turns = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

async fn race<T, F>(addresses: Vec<SocketAddr>, connect: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let attempt = |address| {
        let connecting = timeout(TIMEOUT, connect(address));
        Box::pin(async move {
            let connected = connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            connected.map_err(|error| (address, error))
        })
    };
    let mut addresses = addresses.into_iter();
    let mut attempts: Vec<Pin<Box<_>>> = Vec::new();
    let mut failures = Vec::new();
    let mut head_start = pin!(sleep(HEAD_START));
    loop {
        attempts.extend(addresses.next().map(attempt));
        if attempts.is_empty() {
            return Err(combined_error(&failures));
        }
        head_start.as_mut().reset(Instant::now() + HEAD_START);
        tokio::select! {
            ended = first(&mut attempts) => match ended {
                Ok(connected) => return Ok(connected),
                Err(failure) => failures.push(failure),
            },
            () = head_start.as_mut(), if addresses.len() > 0 => {}
        }
    }
}

/// Waits until an attempt ends, removes this attempt and returns its result.
async fn first<F: Future>(attempts: &mut Vec<Pin<Box<F>>>) -> F::Output {
    poll_fn(|cx| {
        for at in 0..attempts.len() {
            if let Poll::Ready(ended) = attempts[at].as_mut().poll(cx) {
                drop(attempts.swap_remove(at));
                return Poll::Ready(ended);
            }
        }
        Poll::Pending
    })
    .await
}

/// Combines all failures into one error. The kind of this error is `ConnectionRefused` only if all addresses refused
/// the connection.
fn combined_error(failures: &[(SocketAddr, io::Error)]) -> io::Error {
    let kinds = failures.iter().map(|(_, error)| error.kind());
    let kind = kinds.reduce(|one, other| if one == io::ErrorKind::ConnectionRefused { other } else { one });
    let texts: Vec<String> = failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
    let text = if texts.is_empty() { "the host has no address".into() } else { texts.join("; ") };
    io::Error::new(kind.unwrap_or(io::ErrorKind::NotFound), text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use pintle_metrics::InMemoryProvider;

    use super::*;

    #[tokio::test]
    async fn cancelled_dns_lookup_is_measured() {
        let memory = InMemoryProvider::new();
        let metrics = LookUps::new(Arc::new(memory.clone()), "localhost".into());
        drop(connect("localhost", 1, Some(&metrics)).now_or_never());
        let found = memory.distribution("rest_client_dns_resolution_duration_seconds", &[("host", "localhost")]);
        assert_eq!(found.map(|found| found.count()), Some(1));
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|address| format!("{address}:1").parse().unwrap()).collect()
    }

    /// Connects to a list of simulated addresses. An address that ends with 9 never responds, and an address that ends
    /// with 8 refuses the connection. Any other address accepts the connection after one second.
    async fn try_all(list: &[&str]) -> (Result<String, String>, Duration) {
        let started = Instant::now();
        let connected = race(addresses(list), |address| async move {
            match address.ip().to_string().as_bytes().last() {
                Some(b'9') => std::future::pending().await,
                Some(b'8') => return Err(io::ErrorKind::ConnectionRefused.into()),
                _ => sleep(Duration::from_secs(1)).await,
            }
            Ok(address.ip().to_string())
        });
        let connected = connected.await.map_err(|error| format!("{:?} {error}", error.kind()));
        (connected, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn dead_address_costs_one_head_start() {
        for (list, winner, millis) in [
            (&["10.0.0.1"][..], "10.0.0.1", 1000),
            (&["10.0.0.9", "10.0.0.1"], "10.0.0.1", 1250),
            (&["10.0.0.8", "10.0.0.1"], "10.0.0.1", 1000),
            (&["10.0.0.9", "10.0.0.19", "10.0.0.1", "10.0.0.2"], "10.0.0.1", 1500),
            (&["10.0.0.9", "10.0.0.8", "10.0.0.2"], "10.0.0.2", 1250),
        ] {
            let (connected, took) = try_all(list).await;
            assert_eq!(connected.as_deref(), Ok(winner), "{list:?}");
            assert!((millis..millis + 20).contains(&took.as_millis()), "{list:?}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn error_lists_all_addresses_when_none_respond() {
        let (error, took) = try_all(&["10.0.0.9", "10.0.0.8"]).await;
        let error = error.unwrap_err();
        assert!(
            error.starts_with("TimedOut") && error.contains("10.0.0.9:1") && error.contains("10.0.0.8:1"),
            "{error}"
        );
        assert!(took <= TIMEOUT + HEAD_START, "{took:?}");
        assert!(try_all(&["10.0.0.8", "10.0.0.18"]).await.0.unwrap_err().starts_with("ConnectionRefused"));
        assert!(try_all(&[]).await.0.unwrap_err().contains("no address"));
    }

    #[test]
    fn address_families_alternate() {
        let mixed = ["[::1]", "[::2]", "[::3]", "10.0.0.1", "10.0.0.2"];
        assert_eq!(in_turns(addresses(&mixed)), addresses(&["[::1]", "10.0.0.1", "[::2]", "10.0.0.2", "[::3]"]));
    }
}
