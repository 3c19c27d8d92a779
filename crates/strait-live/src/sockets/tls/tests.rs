use std::os::unix::fs::PermissionsExt;

use super::*;

fn file(name: &str) -> String {
    format!("{}/../../vectors/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn showing(certificate: &str, key: &str) -> TlsConfig {
    TlsConfig {
        certificate: Some(file(certificate)),
        key: Some(file(key)),
        ..TlsConfig::default()
    }
}

fn load(config: TlsConfig) -> Result<TlsProfiles, String> {
    let configs = BTreeMap::from([("own".into(), config)]);
    TlsProfiles::load(&configs).map_err(|error| error.to_string())
}

#[test]
fn what_does_not_serve_is_told_by_its_key_and_file() {
    assert!(load(showing("server.pem", "server.key")).is_ok());
    let names = |names: &[&str]| TlsConfig {
        names: names.iter().map(|it| (*it).into()).collect(),
        ..showing("server.pem", "server.key")
    };
    assert!(load(names(&["a.example", "b.example"])).is_ok());
    let trust = TlsConfig {
        trust: Some(file("README.md")),
        ..TlsConfig::default()
    };
    for (config, words) in [
        (
            showing("none.pem", "server.key"),
            ["certificate", "none.pem can't be read"],
        ),
        (
            showing("server.pem", "none.key"),
            ["key", "none.key can't be read"],
        ),
        (
            showing("server.key", "server.key"),
            ["certificate", "has no certificate"],
        ),
        (
            showing("server.pem", "server.pem"),
            ["key", "has no unencrypted private key"],
        ),
        (
            showing("server.pem", "client.key"),
            ["key", "isn't the key of"],
        ),
        (
            names(&["a.example", "c.example"]),
            ["names", "isn't for c.example, but for: a.example"],
        ),
        (trust, ["trust", "has no certificate"]),
    ] {
        let found = load(config).err().unwrap_or_default();
        let place = format!("[tls.own] {}", words[0]);
        assert!(
            found.starts_with(&place) && found.contains(words[1]),
            "{found}"
        );
    }
}

#[test]
fn keys_that_others_read_and_certificates_out_of_time_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("own.key");
    fs::copy(file("server.key"), &key).unwrap();
    let told = |certificate: &str, mode| {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let config = TlsConfig {
            key: Some(key.display().to_string()),
            ..showing(certificate, "")
        };
        warnings(&BTreeMap::from([("own".into(), config)]))
    };
    assert_eq!(told("server.pem", 0o600), [""; 0]);
    let [open] = &told("server.pem", 0o640)[..] else {
        panic!("one warning");
    };
    assert!(
        open.starts_with("[tls.own] key: ") && open.contains("chmod 600"),
        "{open}"
    );
    let [late] = &told("expired.pem", 0o600)[..] else {
        panic!("one warning");
    };
    assert!(
        late.starts_with("[tls.own] certificate: ") && late.contains("expired"),
        "{late}"
    );
}

#[test]
fn a_file_that_changes_is_read_again_and_a_wrong_one_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("own.pem");
    let key = folder.path().join("own.key");
    let place = |name: &str| {
        fs::copy(file(&format!("{name}.pem")), &certificate).unwrap();
        fs::copy(file(&format!("{name}.key")), &key).unwrap();
    };
    place("server");
    let config = TlsConfig {
        certificate: Some(certificate.display().to_string()),
        key: Some(key.display().to_string()),
        ..TlsConfig::default()
    };
    let mut profiles = load(config).unwrap();
    let mut serving = || {
        profiles.begin("own", &TlsRole::Server).unwrap();
        Arc::as_ptr(profiles.0["own"].made.server.as_ref().unwrap())
    };
    let first = serving();
    assert_eq!(serving(), first);
    fs::write(&certificate, "half a fi").unwrap();
    assert_eq!(serving(), first);
    place("client");
    let second = serving();
    assert_ne!(second, first);
    assert_eq!(serving(), second);
}

#[test]
fn a_profile_is_for_what_it_has() {
    let mut server = load(showing("server.pem", "server.key")).unwrap();
    let name = String::from("a.example");
    let client = TlsRole::Client { name };
    assert!(server.begin("own", &TlsRole::Server).is_ok());
    assert_eq!(server.begin("own", &client).err(), Some(TlsFault::Profile));
    assert_eq!(
        server.begin("other", &TlsRole::Server).err(),
        Some(TlsFault::Profile)
    );
    let mut trusting = load(TlsConfig {
        trust: Some(file("authority.pem")),
        ..TlsConfig::default()
    })
    .unwrap();
    assert!(trusting.begin("own", &client).is_ok());
    assert_eq!(
        trusting.begin("own", &TlsRole::Server).err(),
        Some(TlsFault::Profile)
    );
    let name = String::from("not a name");
    let wrong = TlsRole::Client { name };
    assert_eq!(trusting.begin("own", &wrong).err(), Some(TlsFault::Name));
}
