//! Pages of a list, and the handling of failed pages.

use std::time::Instant;

use pintle_meta::__private::ContinueTokens;
use pintle_meta::{ApiError, List, ListOptions, Object, ResourceVersionMatch};

use super::{Command, Output, Phase, Reflector, Step, Then};
use crate::error::ReflectorError;
use crate::state::ListProgress;

const PAGE_SIZE: u32 = 500;

pub(super) struct Pages<T> {
    first: ListOptions,
    continue_tokens: ContinueTokens,
    objects: Vec<T>,
    /// The number of objects on the remaining pages, or `None` if the server did not report this number.
    remaining: Option<u64>,
    /// The revision that all pages share, or `None` until the first page arrives.
    resource_version: Option<String>,
}

impl<T: Object> Reflector<T> {
    pub(super) fn begin_list(&mut self) -> Command {
        let resource_version = match (self.version_unavailable, self.floor()) {
            (true, _) => "",
            (false, "") => "0",
            (false, floor) => floor,
        };
        let is_bound = !matches!(resource_version, "" | "0");
        let limit = match self.config.page_size {
            Some(limit) => limit,
            None if self.is_paginated => PAGE_SIZE,
            // A request with both a limit and a revision other than "0" bypasses the server's watch cache. At revision
            // "0", a server with a watch cache ignores the limit.
            None if is_bound => 0,
            None => PAGE_SIZE,
        };
        let options = ListOptions {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            resource_version: resource_version.to_owned(),
            // Without `resourceVersionMatch`, a list with both a revision and a limit requests exactly this revision.
            resource_version_match: (is_bound && limit > 0).then_some(ResourceVersionMatch::NotOlderThan),
            limit,
            ..ListOptions::default()
        };
        self.request_first(options)
    }

    pub(super) fn listed(&mut self, now: Instant, mut pages: Pages<T>, answer: Result<List<T>, ApiError>) -> Step<T> {
        let answer = answer.and_then(|page| {
            pages.continue_tokens.add(&page.metadata.continue_token, page.items.len())?;
            Ok(page)
        });
        let page = match answer {
            Ok(page) => page,
            Err(error) => {
                let discarded = std::mem::take(&mut pages.objects);
                return Step { discarded, ..self.list_failed(now, pages, error) };
            }
        };
        if pages.objects.is_empty() {
            pages.objects = page.items
        } else {
            pages.objects.extend(page.items)
        }
        let resource_version = pages.resource_version.take().unwrap_or(page.metadata.resource_version);
        let continue_token = page.metadata.continue_token;
        if !continue_token.is_empty() {
            self.is_paginated |= pages.first.resource_version == "0";
            let next = ListOptions {
                continue_token,
                resource_version: String::new(),
                resource_version_match: None,
                ..pages.first.clone()
            };
            pages.remaining = page.metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok());
            pages.resource_version = Some(resource_version);
            self.phase = Phase::Listing(pages);
            return Command::List(next).into();
        }
        if let Some(error) = self.goes_back(now, &resource_version) {
            return Step { discarded: pages.objects, ..self.delay(now, Some(error), Then::Round) };
        }
        self.version_unavailable = false;
        self.list_succeeded();
        // A successful list does not prove that watches work again, so a watch failure remains the current failure.
        self.trouble.take_if(|(cause, _)| !matches!(cause, ReflectorError::Watch(_) | ReflectorError::VeryShortWatch));
        self.resource_version.clone_from(&resource_version);
        let output = Some(Output::Replaced { objects: pages.objects, resource_version });
        Step { output, ..self.open_watch(false).into() }
    }

    fn list_failed(&mut self, now: Instant, pages: Pages<T>, error: ApiError) -> Step<T> {
        if error.is_expired() && pages.resource_version.is_some() && pages.first.limit > 0 {
            return self.request_first(ListOptions { limit: 0, resource_version_match: None, ..pages.first }).into();
        }
        if (error.is_expired() || error.is_too_large_resource_version()) && !self.version_unavailable {
            self.version_unavailable = true;
            return self.begin_list().into();
        }
        self.delay(now, Some(ReflectorError::list(error)), Then::Round)
    }

    fn request_first(&mut self, options: ListOptions) -> Command {
        let first = options.clone();
        let (continue_tokens, objects) = (ContinueTokens::default(), Vec::new());
        self.phase = Phase::Listing(Pages { first, continue_tokens, objects, remaining: None, resource_version: None });
        Command::List(options)
    }
}

impl<T> Pages<T> {
    pub(super) fn progress(&self) -> ListProgress {
        ListProgress { received: self.objects.len(), remaining: self.remaining }
    }
}

pintle_meta::debug_struct!(Pages<T> |self| { first, objects = self.objects.len(), resource_version });
