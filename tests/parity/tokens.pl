#!/usr/bin/env perl
# SPDX-License-Identifier: BSD-3-Clause
# tokens.pl FOLDER: the ids that a tokenizer.json makes of each line of standard input, as far as
# mds_ckpt writes such files: Replace, then Split or ByteLevel, then a word for a piece.
use strict;
use warnings;
use JSON::PP;

open(my $f, '<', "$ARGV[0]/tokenizer.json") or die "$ARGV[0]: $!\n";
my $j = decode_json(join '', <$f>);
my $vocab = $j->{model}{vocab};
my $byte_level = $j->{pre_tokenizer}{type} eq 'ByteLevel';
my ($next, @letter) = (256);
push @letter, chr(/^(?:3[3-9]|[4-9]\d|1[01]\d|12[0-6])$/ || $_ > 172 && $_ != 173 || $_ > 160 && $_ < 173 ? $_ : $next++)
    for 0 .. 255;

while (my $text = <STDIN>) {
    chomp $text;
    for my $rule (@{ $j->{normalizer} ? $j->{normalizer}{normalizers} : [] }) {
        $text =~ s/$rule->{pattern}{Regex}/$rule->{content}/g;
    }
    my $piece = $byte_level ? qr/./s : qr/$j->{pre_tokenizer}{pattern}{Regex}/;
    my @words = map { $byte_level ? $letter[ord] : $_ } $text =~ /$piece/g;
    print join(' ', map { $vocab->{$_} // $vocab->{ $j->{model}{unk_token} } } @words), "\n";
}
