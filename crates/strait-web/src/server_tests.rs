//! Hostile clients, over real sockets on loopback.

use std::time::Instant;

use strait_status::Snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Shorter than outside, so that tests needn't wait.
const SHORT: Patience = Patience {
    head: Duration::from_millis(200),
    answer: Duration::from_millis(600),
    stuck: Duration::from_millis(500),
};

struct Served {
    address: SocketAddr,
    hub: Arc<Hub>,
}

async fn start(token: Option<&str>) -> Served {
    let hub = Arc::new(Hub::new(1));
    let guard = Guard {
        names: Vec::new(),
        token: token.map(str::to_owned),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(accept(listener, router(Arc::clone(&hub), guard), SHORT));
    Served { address, hub }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        timeout(Duration::from_secs(20), test)
            .await
            .expect("in time");
    });
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connected")
    }

    /// All that is answered to these octets.
    async fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        // A server that has heard enough closes before all is written.
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn path(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
        self.ask(request.as_bytes()).await
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn the_page_comes_with_a_policy_that_lets_nothing_else_in() {
    run(async {
        let served = start(None).await;
        let page = served.path("/").await;
        assert_eq!(status(&page), "200");
        let head = page.split("\r\n\r\n").next().unwrap_or_default();
        assert!(
            head.contains("default-src 'none'; script-src 'self'"),
            "{head}"
        );
        assert!(
            head.contains("nosniff") && head.contains("no-store"),
            "{head}"
        );
        for (path, _, content) in page::files() {
            let answer = served.path(path).await;
            assert!(answer.ends_with(content), "{path}");
        }
        for path in ["/recording", "/save"] {
            assert_eq!(status(&served.path(path).await), "200", "{path}");
        }
    });
}

#[test]
fn paths_lead_nowhere_else() {
    run(async {
        let served = start(None).await;
        for path in [
            "/../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "//etc/passwd",
            "/page.css/../../x",
            "/page.css%00",
            "/main.js/",
            "/\\..\\x",
            "/.git/config",
        ] {
            let answer = served.path(path).await;
            assert!(matches!(status(&answer), "404" | "400"), "{path}: {answer}");
        }
    });
}

#[test]
fn others_are_refused_over_the_wire() {
    run(async {
        let served = start(None).await;
        for (request, expected) in [
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            (
                "GET /events HTTP/1.1\r\nHost: evil.example:80\r\n\r\n",
                "403",
            ),
            ("GET / HTTP/1.1\r\n\r\n", "403"),
            ("GET / HTTP/1.0\r\n\r\n", "403"),
            (
                "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
                "403",
            ),
            (
                "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
                "403",
            ),
            (
                "GET /events HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n",
                "403",
            ),
            (
                "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "400",
            ),
            (
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
                "405",
            ),
            // Another protocol: closed without a word.
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
            ("\u{16}\u{3}\u{1}\u{2}\r\n\r\n", "400"),
            (
                "GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
                "400",
            ),
        ] {
            let answer = served.ask(request.as_bytes()).await;
            assert_eq!(status(&answer), expected, "{request}: {answer}");
        }
    });
}

#[test]
fn a_head_has_limits() {
    run(async {
        let served = start(None).await;
        let long = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
            "x".repeat(1 << 20)
        );
        assert_eq!(status(&served.ask(long.as_bytes()).await), "431");
        let many = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
            "X: 1\r\n".repeat(100)
        );
        assert_eq!(status(&served.ask(many.as_bytes()).await), "431");
        let path = served.path(&format!("/{}", "x".repeat(1 << 20))).await;
        assert!(matches!(status(&path), "431" | "414"), "{path}");
    });
}

#[test]
fn a_slow_head_is_cut_and_holds_nobody_up() {
    run(async {
        let served = start(None).await;
        let mut slow = Vec::new();
        for _ in 0..CONNECTIONS_MAX - 1 {
            let mut stream = served.connect().await;
            stream
                .write_all(b"GET / HTTP/1.1\r\nHost:")
                .await
                .expect("written");
            slow.push(stream);
        }
        assert_eq!(status(&served.path("/").await), "200");
        let more = served.connect().await;
        let more2 = served.connect().await;
        let mut buffer = Vec::new();
        let began = Instant::now();
        // An octet now and then buys no time.
        for _ in 0..4 {
            let _ = slow[0].write_all(b" ").await;
            sleep(SHORT.head / 3).await;
        }
        let _ = slow[0].read_to_end(&mut buffer).await;
        assert!(began.elapsed() < SHORT.head * 4, "{:?}", began.elapsed());
        drop((more, more2));
        assert_eq!(status(&served.path("/").await), "200");
    });
}

#[test]
fn a_stream_brings_the_newest_and_streams_are_counted() {
    run(async {
        let served = start(None).await;
        let mut streams = Vec::new();
        for _ in 0..STREAMS_MAX {
            let mut stream = served.connect().await;
            let request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
            stream.write_all(request).await.expect("written");
            let mut head = [0; 1024];
            let octets = stream.read(&mut head).await.expect("read");
            assert!(head[..octets].starts_with(b"HTTP/1.1 200"));
            streams.push(stream);
        }
        assert_eq!(status(&served.path("/events").await), "503");
        // Longer than any other answer may take.
        sleep(SHORT.answer * 2).await;
        let snapshot = Snapshot {
            node: "told".into(),
            ..Snapshot::default()
        };
        served.hub.heard(0, &snapshot);
        let mut event = vec![0; 4096];
        let octets = streams[0].read(&mut event).await.expect("read");
        let event = String::from_utf8_lossy(&event[..octets]).into_owned();
        assert!(
            event.contains("data: {") && event.contains("told"),
            "{event}"
        );
        drop(streams);
        sleep(Duration::from_millis(50)).await;
        served.hub.heard(0, &Snapshot::default());
        sleep(Duration::from_millis(50)).await;
        assert!(served.hub.news().borrow().gt(&1));
        let mut again = served.connect().await;
        let request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        again.write_all(request).await.expect("written");
        let mut head = [0; 512];
        let octets = again.read(&mut head).await.expect("read");
        assert!(
            head[..octets].starts_with(b"HTTP/1.1 200"),
            "places come back"
        );
    });
}

#[test]
fn a_browser_that_reads_nothing_is_cut() {
    run(async {
        let served = start(None).await;
        let stuck = served.connect().await;
        let mut stuck = { stuck };
        let request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stuck.write_all(request).await.expect("written");
        // More than both sockets' buffers hold.
        let big = Snapshot {
            node: "x".repeat(4 << 20),
            ..Snapshot::default()
        };
        let began = Instant::now();
        let error = loop {
            served.hub.heard(0, &big);
            sleep(Duration::from_millis(100)).await;
            if let Err(error) = stuck.write_all(b" ").await {
                break error;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "it is never cut");
        };
        assert!(
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::TimedOut
            ),
            "{error}"
        );
    });
}

#[test]
fn others_than_this_host_need_the_token() {
    run(async {
        let served = start(Some("secret")).await;
        assert_eq!(status(&served.path("/").await), "401");
        let taken = served.path("/?token=secret").await;
        assert_eq!(status(&taken), "303");
        assert!(
            taken.contains("set-cookie: strait=secret; HttpOnly"),
            "{taken}"
        );
        let with = "GET /recording HTTP/1.1\r\nHost: localhost\r\nCookie: strait=secret\r\n\r\n";
        assert_eq!(status(&served.ask(with.as_bytes()).await), "200");
    });
}
