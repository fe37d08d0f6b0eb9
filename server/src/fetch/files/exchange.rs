//! One exchange with a directory.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_http::fields::{FieldBlock, Fields};
use forebay_http::policy::accept_encoding::accepts_coding;
use forebay_http::request::{Method as RequestMethod, Version};
use forebay_http::response::origin_head;
use http::Method;
use tokio::time::{sleep, timeout};

use super::answer::{FileAnswer, answer_file, moved, refused};
use super::file_path;
use super::open::{FileLookup, FileRequest, find};
use crate::clock;
use crate::config::{ContentCoding, RouteSettings};
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::fetch::answer::{ConnectionPermit, OriginAnswer, OriginBody};
use crate::fetch::exchange::Exchange;
use crate::fetch::origins::OriginPool;
use crate::fetch::outbound::Purpose;
use crate::forwarding::CONDITIONS;
use crate::limits::{FILE_OPENS_MAX, FILE_TICK_MS, ORIGIN_LIMITS};
use crate::trace::RequestStep;

impl Exchange<'_> {
    /// Answers the request from a directory.
    ///
    /// # Errors
    /// See [`exchange`](crate::fetch::exchange::exchange); also, the directory or the file cannot
    /// be read.
    pub(in crate::fetch) async fn run_on_files(
        &self,
        directory: &Arc<Path>,
    ) -> Result<OriginAnswer, Fault> {
        let pool = self.worker().origins.files_pool(directory, self.settings());
        let permit = self.permit_in_turn(&pool).await?;
        let (request_time, began_us) = (clock::unix_seconds(), clock::monotonic_us());
        let empty = FieldBlock::new();
        let asked = match self.outbound.purpose {
            Purpose::PassThrough => self.outbound.message.fields,
            purpose => purpose.fields().unwrap_or(&empty).fields(),
        };
        let answer = self.answer(directory, &pool, asked).await?;
        let took_us = clock::monotonic_us().saturating_sub(began_us);
        self.worker().count(Counter::FilesAnswers);
        self.trace.step(|| RequestStep::Origin { status: answer.status, took_us });
        let method = RequestMethod::of(self.outbound.message.line.method().as_str().as_bytes());
        let lines = answer.lines.iter().map(|(name, value)| (*name, &**value));
        let mut head = origin_head(answer.status, Version::Http11, method, &ORIGIN_LIMITS, lines)
            .map_err(|_| Fault::Internal)?;
        let received = self.run_response_rules(&mut head)?;
        Ok(OriginAnswer {
            head,
            received,
            received_status: answer.status,
            body: OriginBody {
                worker: Rc::clone(self.worker()),
                origin: answer.shown,
                in_group: None,
                source: answer.source,
                permit: Some(ConnectionPermit {
                    connection: None,
                    pool,
                    exchange: permit,
                    is_reusable: false,
                }),
                idle_ms_max: u64::from(self.route_settings().origin_idle_ms_max),
                refuses_excess: false,
                left_bytes: u64::MAX,
                decoder: None,
                client_wait_ms: Rc::default(),
                upload: None,
            },
            is_fallback: answer.is_fallback,
            request_time,
            response_time: clock::unix_seconds(),
            switched: None,
        })
    }

    async fn answer(
        &self,
        directory: &Arc<Path>,
        pool: &Rc<OriginPool>,
        asked: Fields<'_>,
    ) -> Result<FileAnswer, Fault> {
        let route = self.outbound.hook.route.ok_or(Fault::Internal)?;
        let (settings, line) = (&route.route.settings, self.outbound.message.line);
        let is_get = line.method() == Method::GET;
        let shown = &pool.authority;
        if !is_get && line.method() != Method::HEAD {
            return Ok(refused(405, shown));
        }
        let Ok(path) = file_path(route, line.path_query()) else {
            self.worker().count(Counter::FilesMissing);
            return Ok(refused(404, shown));
        };
        let request = FileRequest {
            directory: Arc::clone(directory),
            path: path.below().to_vec(),
            is_directory: path.is_directory,
            index: settings.files_index.names(),
            fallback: settings.files_fallback.get(),
            codings: self.codings(settings),
            reads: is_get && !asked.seen().intersects(CONDITIONS),
        };
        let found = self.find(pool, &request).await?;
        Ok(match found {
            FileLookup::File(open) => {
                if open.is_fallback {
                    self.worker().count(Counter::FilesFallbacks);
                }
                answer_file(self.worker(), pool, *open, (settings, asked, is_get))
            }
            FileLookup::Directory => moved(&path, line.path_query(), shown),
            FileLookup::NoIndex => refused(403, shown),
            FileLookup::Missing => {
                self.worker().count(Counter::FilesMissing);
                refused(404, shown)
            }
            FileLookup::NoFallback(cause) => {
                self.worker().count(Counter::FilesMissing);
                let fallback = request.fallback.as_deref().unwrap_or_default();
                let detail = format_args!("{shown}: /{fallback}: {cause}");
                self.worker().event(Event::FallbackMissing, &detail);
                refused(404, shown)
            }
            FileLookup::Denied(cause) => {
                self.worker().count(Counter::FilesDenied);
                let detail = format_args!("{shown}: {}: {cause}", path.shown());
                self.worker().event(Event::FileDenied, &detail);
                refused(403, shown)
            }
            FileLookup::Unsettled => return Err(Fault::Internal),
        })
    }

    /// Finds and opens the file on a reading thread. While the file is being written, waits until a
    /// further change would be noticed.
    async fn find(&self, pool: &OriginPool, request: &FileRequest) -> Result<FileLookup, Fault> {
        let failed = |fault: Fault, cause: &str| {
            let cause = format!("{}: {cause}", request.path.escape_ascii());
            self.worker().origin_fault(fault, &pool.authority, Some(&cause));
            fault
        };
        let limit =
            Duration::from_millis(u64::from(self.route_settings().origin_first_byte_ms_max));
        for _ in 0..FILE_OPENS_MAX {
            let request = request.clone();
            let found = timeout(limit, pool.readers.run(move || find(&request))).await;
            let found = found.map_err(|_| failed(Fault::OriginFirstByteTimeout, "the disk"))?;
            let found =
                found.map_err(|error| failed(Fault::FilesBusy, &format!("no thread: {error}")))?;
            match found.map_err(|(fault, cause)| failed(fault, &cause))? {
                FileLookup::Unsettled => sleep(Duration::from_millis(FILE_TICK_MS)).await,
                found => return Ok(found),
            }
        }
        Err(failed(Fault::FileChanged, "it is being written"))
    }

    /// Returns the codings of compressed files that the client accepts, in this server's order.
    fn codings(&self, settings: &RouteSettings) -> Vec<ContentCoding> {
        if !settings.files_precompressed {
            return Vec::new();
        }
        let accepts = |coding: &ContentCoding| {
            accepts_coding(self.outbound.message.fields, coding.name().as_bytes())
        };
        // br compresses text best.
        let all = [ContentCoding::Brotli, ContentCoding::Zstd, ContentCoding::Gzip];
        all.into_iter().filter(accepts).collect()
    }
}
