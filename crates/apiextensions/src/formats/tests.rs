//! Tests which strings each format accepts, as in Kubernetes 1.36.

use super::*;

const ACCEPTED: &[(&str, &[&str])] = &[
    ("bsonobjectid", &["507f1f77bcf86cd799439011"]),
    ("byte", &["aGk=", "QR=="]),
    ("cidr", &["1.2.3.4/24", "01.2.3.0/024", "::/0", "::ffff:1.2.3.4/100", "fe80::00001/64"]),
    ("creditcard", &["4111-1111-1111-1111", "378282246310005", "30569309025904", "3530111333300000"]),
    ("date", &["2006-01-02", "2004-02-29", "0000-01-01"]),
    ("date-time", &["2006-01-02T15:04:05Z", "2006-01-02t15:04:05.1z", "2006-01-02T15:04:05+99:99"]),
    ("duration", &["PT1H", "1h30m", "3 hours", "0", "1.h", "22 ns", "5 minutes", "1..5h", "9223372036854775807ns"]),
    ("email", &["a@b.c", "A <a@b.c>", "a@[1.2.3.4]", "\"x y\"@b", "g: a@b;", "a@b (c)", "a (x) <a@b>", "a@b_c"]),
    ("hexcolor", &["#fff", "FFFFFF"]),
    ("hostname", &["a", "a.bc", "a-b", "my-host.example.com", "1a.com", "ä.de"]),
    ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"]),
    ("ipv6", &["::1", "::ffff:1.2.3.4"]),
    ("isbn", &["0321751043", "978-0321751041", "080442957X"]),
    ("isbn10", &["0321751043"]),
    ("isbn13", &["9780321751041"]),
    ("k8s-long-name", &["a", "a.b-c"]),
    ("k8s-short-name", &["a", "a-1"]),
    ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"]),
    ("password", &[""]),
    ("rgbcolor", &["rgb( 1 , 2,255 )"]),
    ("ssn", &["123-45-6789"]),
    ("uri", &["http://x", "/a", "*", "mailto:x", "http://a/b c", "http://[fe80::1%25en0]:80", "ftp://a:1:2", "//a"]),
    ("uuid", &["00000000-0000-0000-0000-000000000000", "00000000-00000000-0000000000000000"]),
    ("uuid3", &["11111111-1111-3111-1111-111111111111"]),
    ("uuid-4", &["11111111-1111-4111-B111-111111111111"]),
    ("no-such", &["x"]),
];

const REJECTED: &[(&str, &[&str])] = &[
    ("bsonobjectid", &["x", "507f1f77bcf86cd79943901"]),
    ("byte", &["", "aGk", "aGk-"]),
    ("cidr", &["1.2.3.4/33", "1.2.3.4/", "1.2.3.4/+1", "/1"]),
    ("creditcard", &["4111111111111112", ""]),
    ("date", &["2006-02-29", "2006-1-2"]),
    ("date-time", &["2006-01-02T15:04:60Z", "2006-01-02 15:04:05Z", "2006-01-02T15:04:05"]),
    ("duration", &["", "5", "h", "1y", "P1Y2X", "9223372036854775808", "99999999999999999999s"]),
    ("email", &["a", "a@b.", "a..b@c", "a@[x]", "g:;", "g: a@b, c@d;", "a@b c", "A B", "a@b(c"]),
    ("hexcolor", &["#ffff", "ggg"]),
    ("hostname", &["1.2.3.4", "a.", "my-host", "a.b", "ex_ample.com", ""]),
    ("ipv4", &["1.2.3.256", "::1", "1.2.3"]),
    ("ipv6", &["1.2.3.4", "fe80::1%eth0", "00001::"]),
    ("isbn", &["x", "978-0321751042"]),
    ("isbn10", &["978-0321751041", "080442957x"]),
    ("isbn13", &["0321751043"]),
    ("k8s-long-name", &["A", "a..b", ""]),
    ("k8s-short-name", &["A", "a.b", "a-", ""]),
    ("mac", &["01:23", "1:2:3:4:5:6"]),
    ("rgbcolor", &["rgb(256,0,0)", "rgb(01,0,0)", "rgb(1,2)", "rgb(+1,0,0)"]),
    ("ssn", &["123456789", "123-456789"]),
    ("uri", &["", "a", "http://a b", "http://a:b", "http://a:1:2", "http://[::1", "/%zz", "http://%41", "://"]),
    ("uuid", &["x", "00000000--0000-0000-0000-000000000000"]),
    ("uuid3", &["11111111-1111-4111-1111-111111111111"]),
    ("uuid4", &["11111111-1111-4111-1111-111111111111"]),
    ("uuid5", &["11111111-1111-5111-1111-111111111111"]),
];

#[test]
fn each_format_matches_the_verdict_of_kubernetes() {
    for (table, accepted) in [(ACCEPTED, true), (REJECTED, false)] {
        for (format, texts) in table {
            for text in *texts {
                assert_eq!(fits(format, text), accepted, "{format}: {text:?}");
            }
        }
    }
}

#[test]
fn dashes_in_format_names_are_ignored() {
    for name in ["date-time", "datetime", "k8s-short-name", "k8sshortname", "uuid-4"] {
        assert!(is_known(name, "string"), "{name}");
    }
    for (name, type_name) in [("int32", "string"), ("uuid", "integer"), ("dns", "")] {
        assert!(!is_known(name, type_name), "{name}");
    }
}
