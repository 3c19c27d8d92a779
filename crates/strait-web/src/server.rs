//! The server: few browsers, no patience.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{Extension, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use futures_util::stream;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::feed::follow;
use crate::guard::{Guard, Verdict, token};
use crate::hub::Hub;
use crate::page;
use crate::recording::Recording;

/// What is served, and to whom.
pub struct Options {
    /// Where browsers come. Where others than this host can come, they need a token.
    pub listen: SocketAddr,
    /// Host names by which they may come, beside addresses and `localhost`.
    pub names: Vec<String>,
    /// Status sockets of the gateways.
    pub sockets: Vec<PathBuf>,
    /// Where to leave the page with all that was recorded, at the end.
    pub save: Option<PathBuf>,
}

/// How long whom is waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For the head of a request.
    head: Duration,
    /// For the whole of an answer that isn't a stream.
    answer: Duration,
    /// While a browser takes nothing of what was sent.
    stuck: Duration,
}

const PATIENCE: Patience = Patience {
    head: Duration::from_secs(5),
    answer: Duration::from_secs(60),
    stuck: Duration::from_secs(20),
};
/// Connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 64;
/// Of these, those that wait for news: the others' places stay free for those who ask once.
const STREAMS_MAX: usize = 16;
/// Octets of a request's head.
const HEAD_OCTETS_MAX: usize = 16 << 10;
/// Its lines.
const HEAD_LINES_MAX: usize = 64;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A connection without news shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Serves until this process is told to stop; `up` hears the address to open.
///
/// # Errors
/// It can't listen there, or the page can't be written at the end.
pub fn serve(options: Options, up: impl FnOnce(&str)) -> io::Result<()> {
    let Options {
        listen,
        names,
        sockets,
        save,
    } = options;
    let is_open = !listen.ip().is_loopback();
    let token = is_open.then(token).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let hub = Arc::new(Hub::new(sockets.len()));
        for (n, socket) in sockets.into_iter().enumerate() {
            follow(Arc::clone(&hub), n, socket)?;
        }
        let query = token.as_ref().map(|token| format!("?token={token}"));
        // An address for all is none to open: the operator knows how others reach the host.
        let place = match address.ip().is_unspecified() {
            true => format!("THIS-HOST:{}", address.port()),
            false => address.to_string(),
        };
        up(&format!("http://{place}/{}", query.unwrap_or_default()));
        let guard = Guard { names, token };
        let site = router(Arc::clone(&hub), guard);
        tokio::select! {
            () = accept(listener, site, PATIENCE) => {}
            end = told_to_stop() => end?,
        }
        match save {
            Some(path) => std::fs::write(path, hub.with_recording(page::one_file)),
            None => Ok(()),
        }
    })
}

async fn told_to_stop() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        end = tokio::signal::ctrl_c() => end,
        _ = terminate.recv() => Ok(()),
    }
}

async fn accept(listener: TcpListener, site: Router, patience: Patience) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, mostly: the listener stays readable, so look away a while.
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            tokio::spawn(answer(stream, site.clone(), patience, place));
        }
    }
}

/// Whether the answer on a connection is a stream, which has no end.
#[derive(Clone, Debug, Default)]
struct Endless(Arc<AtomicBool>);

/// One request and its answer.
async fn answer(stream: TcpStream, site: Router, patience: Patience, _place: OwnedSemaphorePermit) {
    // What isn't taken for so long ends the connection, a stream too.
    if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(patience.stuck)) {
        tracing::debug!(%error, "no limit for browsers that don't read");
    }
    let endless = Endless::default();
    let site = site.layer(Extension(endless.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_headers(HEAD_LINES_MAX)
        .max_buf_size(HEAD_OCTETS_MAX)
        .keep_alive(false);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(site));
    tokio::pin!(connection);
    let whole = timeout(patience.answer, connection.as_mut()).await;
    if whole.is_err() && endless.0.load(Ordering::Relaxed) {
        // How it ends is the browser's business.
        let _ = connection.await;
    }
}

fn router(hub: Arc<Hub>, guard: Guard) -> Router {
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let mut site = Router::new()
        .route("/", routing::get(async || text(HTML, page::served())))
        .route(
            "/favicon.ico",
            routing::get(async || StatusCode::NO_CONTENT),
        )
        .route("/recording", routing::get(recording))
        .route("/save", routing::get(save))
        .route("/events", routing::get(events));
    for (path, kind, content) in page::files() {
        site = site.route(path, routing::get(async move || text(kind, content)));
    }
    let site = site.layer(from_fn_with_state(Arc::new(guard), guarded));
    site.layer(Extension(streams)).with_state(hub)
}

const HTML: &str = "text/html; charset=utf-8";

fn text(kind: &'static str, content: impl Into<axum::body::Body>) -> Response {
    ([(CONTENT_TYPE, kind)], content.into()).into_response()
}

/// What a browser is told about each answer: nothing of it is from elsewhere, or for elsewhere.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.judge(request.method(), request.uri(), request.headers()) {
        Verdict::Passes => next.run(request).await,
        Verdict::TakesCookie => {
            let headers = [(LOCATION, "/".to_owned()), (SET_COOKIE, guard.cookie())];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Verdict::Refused(status, why) => (status, why).into_response(),
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn recording(State(hub): State<Arc<Hub>>) -> Response {
    text(
        "text/plain; charset=utf-8",
        hub.with_recording(Recording::text),
    )
}

async fn save(State(hub): State<Arc<Hub>>) -> Response {
    let file = hub.with_recording(page::one_file);
    let name = (CONTENT_DISPOSITION, "attachment; filename=\"strait.html\"");
    ([name], text(HTML, file)).into_response()
}

/// Each node's newest snapshot, as soon as the browser takes it.
async fn events(
    State(hub): State<Arc<Hub>>,
    Extension(streams): Extension<Arc<Semaphore>>,
    Extension(endless): Extension<Endless>,
) -> Response {
    let Ok(place) = streams.try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n").into_response();
    };
    endless.0.store(true, Ordering::Relaxed);
    let news = hub.news();
    let lines = stream::unfold(
        (hub, news, 0, place),
        async |(hub, mut news, seen, place)| {
            loop {
                if let Some((seen, line)) = hub.line_after(seen) {
                    let event: Result<Event, Infallible> = Ok(Event::default().data(&*line));
                    return Some((event, (hub, news, seen, place)));
                }
                news.changed().await.ok()?;
            }
        },
    );
    let alive = KeepAlive::new().interval(ALIVE);
    Sse::new(lines).keep_alive(alive).into_response()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
