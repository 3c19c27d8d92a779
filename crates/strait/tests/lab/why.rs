//! Why it is slow, said alike by a simulation and by gateways live.

use super::*;

/// The cause that stands first at each gateway that has one.
fn causes(
    rows: &[serde_json::Value],
    of: impl Fn(&serde_json::Value) -> [String; 2],
) -> Vec<[String; 2]> {
    rows.iter().map(of).filter(|it| it[1] != "none").collect()
}

#[test]
fn a_missing_route_is_named_simulated_and_live() {
    if !can_run("why") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/seeing/no-route.toml");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("duration = \"15 s\""), "{text}");
    let path = folder.path().join("no-route.toml");
    fs::write(
        &path,
        text.replace("duration = \"15 s\"", "duration = \"7 s\""),
    )
    .unwrap();
    let simulated = Command::new(STRAIT)
        .arg("why")
        .arg(&path)
        .arg("--json")
        .output()
        .unwrap();
    let simulated: serde_json::Value = serde_json::from_slice(&simulated.stdout).unwrap();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    let said = |it: &serde_json::Value| [word(&it["node"]), word(&it["findings"][0]["cause"])];
    let simulated = causes(simulated.as_array().unwrap(), said);
    assert_eq!(simulated, [["a".to_owned(), "no-route".to_owned()]]);
    let told = lab(folder.path(), &path, &[]);
    assert!(told.success, "{}", told.complaints);
    let table = told.table("why");
    let row = |it: &serde_json::Value| [word(&it[0]), word(&it[1])];
    assert_eq!(
        causes(table["rows"].as_array().unwrap(), row),
        simulated,
        "{table}"
    );
}
