//! Over loopback.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use strait_core::time::Duration;
use strait_live::signals::Stop;
use strait_live::signals::StopRequests;
use strait_traffic::pair::{PairCampaign, PairSummary};

use super::*;

fn campaign() -> PairCampaign {
    PairCampaign {
        sizes: vec![60, 1400],
        count: 3,
        trains: 2,
        train: 64,
        pause: Duration::from_millis(1),
        timeout: Duration::from_millis(300),
        seed: 1,
    }
}

#[test]
fn every_group_is_answered_in_both_families() {
    for local in ["127.0.0.1:0", "[::1]:0"] {
        let listening = Listening::bind(local.parse().unwrap(), 0).unwrap();
        let address = listening.address();
        let requests = StopRequests::new().unwrap();
        let stopper = requests.stopper();
        let server = thread::spawn(move || listening.run(requests, None).unwrap());
        let mut heard = 0;
        let outcome = probe(address, 0, &campaign(), &Stop::default(), |n| heard = n).unwrap();
        stopper.stop();
        let tally = server.join().unwrap();
        assert_eq!((outcome.records.len(), heard), (8, 8), "{outcome:?}");
        assert!(outcome.records.iter().all(|record| record.is_complete()));
        assert_eq!(PairSummary::new(&outcome.records).lost, 0);
        assert_eq!((tally.datagrams, tally.answers), (6 * 2 + 2 * 64, 8));
    }
}

#[test]
fn nobody_there_is_told() {
    let free: SocketAddr = {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap()
    };
    let patient = PairCampaign {
        timeout: Duration::from_millis(20),
        ..campaign()
    };
    let outcome = probe(free, 0, &patient, &Stop::default(), |_| ()).unwrap();
    assert!(outcome.is_unanswered && outcome.refused > 0);
    assert_eq!(outcome.records.len(), 3);
}

#[test]
fn a_request_to_stop_ends_it() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stop = Stop::default();
    stop.ask();
    let outcome = probe(silent.local_addr().unwrap(), 0, &campaign(), &stop, |_| ()).unwrap();
    assert_eq!(outcome, Outcome::default());
}
