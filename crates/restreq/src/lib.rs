//! A REST client for the Kubernetes API: requests, watches, TLS, throttling and retries.
