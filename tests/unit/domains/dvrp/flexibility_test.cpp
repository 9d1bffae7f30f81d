// What records of offers say about types, learning from them, advice, and that the types of the
// default travellers are found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/flexibility/advice.h"
#include "flotilla/domains/dvrp/flexibility/learning.h"
#include "flotilla/nn/safetensors.h"
#include "support/error_text.h"

namespace flotilla::dvrp::test {
namespace {

using flotilla::test::error_text;

const Travellers& travellers() {
  static const Travellers made = generate_data({}).travellers;
  return made;
}

// A trip of every traveller per env, and an action for it, all drawn uniformly.
void add_epoch(OfferRecords& records, int envs, uint64_t seed, int epoch) {
  for (int env = 0; env < envs; ++env) {
    const int episode = epoch * envs + env;
    Rng rng(seed, stream_of(Purpose::kTest, static_cast<uint64_t>(episode)));
    for (int t = 0; t < travellers().count; ++t) {
      const auto& own = travellers().trips_of[static_cast<size_t>(t)];
      const int trip = own[rng.below(static_cast<uint32_t>(own.size()))];
      const auto action = static_cast<uint16_t>(rng.below(kActions));
      const bool accepted = travellers().trips[static_cast<size_t>(trip)].accepted(action);
      records.add({t, trip, action, static_cast<uint16_t>(accepted ? 1 : 0)});
    }
  }
}

OfferRecords epochs_of(int envs, int epochs, uint64_t seed) {
  OfferRecords records;
  for (int epoch = 0; epoch < epochs; ++epoch) add_epoch(records, envs, seed, epoch);
  return records;
}

// ---- records -----------------------------------------------------------------------------------

TEST(OfferRecords, GatheredRecordsHaveTheLossOfAllRecords) {
  const OfferRecords records = epochs_of(16, 1, 1);
  std::vector<Evidence> raw;
  for (const OfferRecord& record : records.all()) {
    raw.push_back({record.traveller, types_that_fit(record, travellers()), 1});
  }
  const std::vector<Evidence> gathered = gather(records.all(), travellers());
  EXPECT_LE(gathered.size(), 30u * 8);  // the traveller's own type always fits
  EXPECT_LT(gathered.size(), raw.size() / 2);
  const FlexibilityEmbedding embedding(30, 2);
  FlexibilityEmbedding::Gradient of_raw, of_gathered;
  EXPECT_NEAR(embedding.loss(raw, of_raw).total, embedding.loss(gathered, of_gathered).total, 1e-9);
  for (size_t k = 0; k < of_raw.size(); ++k) {
    for (size_t i = 0; i < of_raw[k].size(); ++i) {
      ASSERT_NEAR(of_raw[k][i], of_gathered[k][i], 1e-10);
    }
  }
}

TEST(OfferRecords, ATypeFitsWhenItWouldHaveGivenTheAnswer) {
  Trip trip;
  trip.flexibility = Flexibility::kEarly;
  trip.accepts = accepts_by_rule();
  const Travellers one = gathered({trip});
  const auto fits = [&](int pickup, int dropoff, bool accepted) {
    for (uint16_t action = 0; action < kActions; ++action) {
      const Shift shift = shift_of(action);
      if (shift.pickup != pickup || shift.dropoff != dropoff) continue;
      return types_that_fit({0, 0, action, accepted}, one).to_string();
    }
    return std::string("no such action");
  };
  // From the right: late, early, none, both.
  EXPECT_EQ(fits(0, 0, true), "1111");
  EXPECT_EQ(fits(0, 0, false), "0000");
  EXPECT_EQ(fits(20, 0, true), "1010");
  EXPECT_EQ(fits(20, 0, false), "0101");
  EXPECT_EQ(fits(0, 30, true), "1001");
  EXPECT_EQ(fits(0, 30, false), "0110");
  EXPECT_EQ(fits(10, 10, true), "1000");
  EXPECT_EQ(fits(10, 10, false), "0111");
}

OfferRecord numbered(int i) {
  const auto trip = static_cast<size_t>(i) % travellers().trips.size();
  return {travellers().trips[trip].traveller, static_cast<int32_t>(trip),
          static_cast<uint16_t>(i % kActions), static_cast<uint16_t>(i % 2)};
}

std::vector<OfferRecord> sorted_by_trip(const OfferRecords& records) {
  std::vector<OfferRecord> all(records.all().begin(), records.all().end());
  std::ranges::sort(all, {}, &OfferRecord::trip);
  return all;
}

std::vector<std::byte> bytes_of(const OfferRecords& records) {
  Writer writer;
  records.save(writer);
  return writer.buffer();
}

OfferRecords restored(const std::vector<std::byte>& bytes, size_t capacity) {
  OfferRecords records(capacity);
  for (int i = 0; i < static_cast<int>(capacity) * 4 / 3; ++i) records.add(numbered(i));  // to go
  Reader reader(bytes, "memory");
  records.load(reader, travellers());
  EXPECT_TRUE(reader.at_end());
  return records;
}

TEST(OfferRecords, KeepTheLatest) {
  EXPECT_EQ(OfferRecords().capacity(), 64'000u);
  OfferRecords records(100);
  for (int i = 0; i < 257; ++i) {
    records.add(numbered(i));
    ASSERT_EQ(records.size(), static_cast<size_t>(std::min(i + 1, 100)));
  }
  const std::vector<OfferRecord> kept = sorted_by_trip(records);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(kept[static_cast<size_t>(i)], numbered(157 + i));
}

TEST(OfferRecords, GoOnFromWhereTheyWereSaved) {
  for (const int count : {0, 1, 99, 100, 137, 200}) {
    OfferRecords records(100);
    for (int i = 0; i < count; ++i) records.add(numbered(i));
    OfferRecords again = restored(bytes_of(records), 100);
    for (int i = count; i < count + 42; ++i) {
      records.add(numbered(i));
      again.add(numbered(i));
    }
    EXPECT_EQ(sorted_by_trip(again), sorted_by_trip(records)) << count;
    EXPECT_EQ(bytes_of(again), bytes_of(records)) << count;
  }
}

TEST(OfferRecords, RefuseWhatCannotHaveBeenSaved) {
  OfferRecords records(100);
  records.add(numbered(3));
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { restored(bytes_of(records), 99); }),
            "records of 100 offers, expected 99");
  const OfferRecord good = numbered(3);
  for (const OfferRecord& bad :
       {OfferRecord{good.traveller + 1, good.trip, 0, 0},
        OfferRecord{good.traveller, 1'000'000, 0, 0}, OfferRecord{good.traveller, -1, 0, 0},
        OfferRecord{good.traveller, good.trip, 16, 0},
        OfferRecord{good.traveller, good.trip, 0, 2}}) {
    OfferRecords with(100);
    with.add(bad);
    OfferRecords target(100);
    target.add(good);
    const std::vector<std::byte> bytes = bytes_of(with);
    Reader reader(bytes, "memory");
    const std::string text =
        error_text(ErrorCode::kData, [&] { target.load(reader, travellers()); });
    EXPECT_TRUE(text.starts_with("an offer that these travellers cannot have had:")) << text;
    EXPECT_EQ(target.all()[0], good);
  }
  Writer writer;
  writer.u64("offers.capacity", 100);
  writer.text("offers.records", "no records");
  EXPECT_NE(error_text(ErrorCode::kData, [&] { restored(writer.buffer(), 100); }), "no error");
}

// ---- learning ----------------------------------------------------------------------------------

TEST(FlexibilityLearning, SaysWhyItIsSkipped) {
  const auto reason = [](int records, int people, int actions) {
    OfferRecords all;
    for (int i = 0; i < records; ++i) {
      const int traveller = i % people;
      const int trip = travellers().trips_of[static_cast<size_t>(traveller)][0];
      all.add({traveller, trip, static_cast<uint16_t>(i / people % actions), 1});
    }
    FlexibilityEmbedding embedding(30, 0);
    const std::string before = sha256(embedding.weights());
    const LearningOutcome outcome = learn(embedding, all, travellers());
    EXPECT_EQ(sha256(embedding.weights()) == before, outcome.skipped.has_value());
    return outcome.skipped.value_or("learnt");
  };
  EXPECT_EQ(reason(0, 30, 16), "0 records, fewer than the 64 of a batch");
  EXPECT_EQ(reason(63, 2, 3), "63 records, fewer than the 64 of a batch");
  EXPECT_EQ(reason(64, 2, 3), "learnt");
  EXPECT_EQ(reason(64, 1, 3), "travellers with 3 records or more: 1, fewer than 2");
  EXPECT_EQ(reason(64, 2, 2), "different actions: 2, fewer than 3");
  EXPECT_EQ(reason(70, 30, 3), "learnt");

  OfferRecords thin;  // two of each traveller
  for (int i = 0; i < 60; ++i) thin.add({i % 30, 0, static_cast<uint16_t>(i % 16), 1});
  EXPECT_EQ(too_few(thin, {.batch = 10}).value_or("no reason"),
            "travellers with 3 records or more: 0, fewer than 2");
}

struct Saved {
  std::string weights, optimiser;
  std::vector<std::byte> records;
};

Saved save(const FlexibilityEmbedding& embedding, const OfferRecords& records) {
  const auto encode = [](const Tensors& tensors) {
    TensorFile file;
    file.tensors = store(tensors);
    return encode_safetensors(file);
  };
  return {encode(embedding.weights()), encode(embedding.optimiser()), bytes_of(records)};
}

TEST(FlexibilityLearning, GoesOnWithTheSameBits) {
  constexpr int kEnvs = 8, kEvery = 5, kEpochs = 20, kStop = 12;  // between two updates
  const LearningOptions options{.epochs = 10};
  FlexibilityEmbedding embedding(30, 6), again(30, 999);
  OfferRecords records(3000), records_again(3000);  // wraps around
  const auto epoch = [&](FlexibilityEmbedding& e, OfferRecords& r, int k) {
    add_epoch(r, kEnvs, 6, k);
    if (k % kEvery == kEvery - 1) learn(e, r, travellers(), options);
  };
  for (int k = 0; k < kEpochs; ++k) {
    epoch(embedding, records, k);
    if (k > kStop) epoch(again, records_again, k);
    if (k != kStop) continue;
    const Saved saved = save(embedding, records);
    again.set_weights(decode_safetensors(saved.weights, "weights").all_tensors());
    again.set_optimiser(decode_safetensors(saved.optimiser, "optimiser").all_tensors());
    records_again = restored(saved.records, 3000);
  }
  const Saved one = save(embedding, records), other = save(again, records_again);
  EXPECT_EQ(one.weights, other.weights);
  EXPECT_EQ(one.optimiser, other.optimiser);
  EXPECT_EQ(one.records, other.records);
  EXPECT_EQ(embedding.predict(), again.predict());
}

// ---- advice ------------------------------------------------------------------------------------

TypeProbabilities sure_of(size_t type) {
  TypeProbabilities p = {};
  p[type] = 1;
  return p;
}

TEST(Advisor, AllowsWhatTheTableSaysAndToShiftNothing) {
  Travellers people = travellers();
  for (Trip& trip : people.trips) {
    for (auto& accepts : trip.accepts) accepts.reset(kNoShift);  // whatever the table says
  }
  const Advisor advisor(people);
  for (size_t i = 0; i < people.trips.size(); ++i) {
    for (size_t type = 0; type < kFlexibilities; ++type) {
      std::bitset<kActions> expected = people.trips[i].accepts[type];
      expected.set(kNoShift);
      ASSERT_EQ(advisor.allowed(static_cast<int>(i), static_cast<Flexibility>(type)), expected);
    }
  }
}

TEST(Advice, DrawnTypesFollowTheGuess) {
  const TypeProbabilities guess = {0.1, 0.2, 0.3, 0.4};
  EXPECT_EQ(likeliest(guess), Flexibility::kBoth);
  EXPECT_EQ(likeliest({0.25, 0.25, 0.25, 0.25}), Flexibility::kLate);
  EXPECT_EQ(drawn_type(guess, 0), Flexibility::kLate);
  EXPECT_EQ(drawn_type(guess, 0.0999), Flexibility::kLate);
  EXPECT_EQ(drawn_type(guess, 0.1001), Flexibility::kEarly);
  EXPECT_EQ(drawn_type(guess, 0.2999), Flexibility::kEarly);
  EXPECT_EQ(drawn_type(guess, 0.3001), Flexibility::kNone);
  EXPECT_EQ(drawn_type(guess, 0.6001), Flexibility::kBoth);
  EXPECT_EQ(drawn_type(guess, 1), Flexibility::kBoth);
  EXPECT_EQ(drawn_type({0.5, 0.5, 0, 0}, 1), Flexibility::kLate);  // rounded up to one
}

TEST(Advice, CountsGuessesAndThoseThatAreRight) {
  std::vector<TypeProbabilities> guesses;
  TypeCounts expected = {};
  for (size_t t = 0; t < 30; ++t) {
    const Trip& trip = travellers().trips[static_cast<size_t>(travellers().trips_of[t][0])];
    guesses.push_back(sure_of(static_cast<size_t>(trip.flexibility)));
    ++expected[static_cast<size_t>(trip.flexibility)];
  }
  EXPECT_EQ(histogram(guesses), expected);
  EXPECT_EQ(expected, (TypeCounts{8, 13, 6, 3}));
  EXPECT_EQ(accuracy(guesses, travellers()), 1);
  for (size_t t = 0; t < 6; ++t) {
    guesses[t] = sure_of((static_cast<size_t>(likeliest(guesses[t])) + 1) % 4);
  }
  EXPECT_DOUBLE_EQ(accuracy(guesses, travellers()), 0.8);
}

TEST(Advice, WarnsOfTypesThatFitNothing) {
  const TypeShares shares = shares_that_fit(std::vector<Evidence>{
      {0, TypePattern("0011"), 600}, {1, TypePattern("0001"), 394}, {2, TypePattern("0101"), 6}});
  EXPECT_DOUBLE_EQ(shares[0], 1);
  EXPECT_DOUBLE_EQ(shares[1], 0.6);
  EXPECT_DOUBLE_EQ(shares[2], 0.006);
  EXPECT_DOUBLE_EQ(shares[3], 0);
  const std::vector<std::string> lines = warnings_of(shares);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "'inflexible for any schedule changes' fits 0.6 % of the answers; nobody will be taken "
            "for it");
  EXPECT_TRUE(lines[1].starts_with("'flexible for both early pickup and late dropoff' fits 0.0 %"));
  EXPECT_TRUE(warnings_of({0.01, 0.5, 1, 0.2}).empty());
}

// ---- the types of the default travellers ------------------------------------------------------

// What can be known: the posterior over types from a uniform prior, where an answer has
// probability 1 or 0. Undecided ones get equal parts, and `likeliest` the first of them.
std::vector<TypeProbabilities> posterior(std::span<const Evidence> evidence) {
  std::vector<TypeProbabilities> all(30, TypeProbabilities{1, 1, 1, 1});
  for (const Evidence& each : evidence) {
    for (size_t type = 0; type < kFlexibilities; ++type) {
      if (!each.fits[type]) all[static_cast<size_t>(each.traveller)][type] = 0;
    }
  }
  for (TypeProbabilities& p : all) {
    const double sum = p[0] + p[1] + p[2] + p[3];
    for (double& each : p) each /= sum;
  }
  return all;
}

// The accuracy behind each update: 64 envs, 20 epochs, an update every 10.
std::vector<double> accuracies(uint64_t seed, const EmbeddingOptions& options) {
  FlexibilityEmbedding embedding(30, seed, options);
  OfferRecords records;
  std::vector<double> all;
  for (int epoch = 1; epoch <= 20; ++epoch) {
    add_epoch(records, 64, seed, epoch);
    if (epoch % 10 != 0) continue;
    const LearningOutcome outcome = learn(embedding, records, travellers());
    EXPECT_FALSE(outcome.skipped);
    EXPECT_EQ(records.size(), static_cast<size_t>(epoch) * 1920);
    EXPECT_TRUE(warnings_of(shares_that_fit(outcome.evidence)).empty());
    EXPECT_LT(outcome.after.total, outcome.before.total);
    EXPECT_LT(outcome.after.regulariser, outcome.before.regulariser);
    const double known = accuracy(posterior(outcome.evidence), travellers());
    EXPECT_EQ(known, 1);
    all.push_back(accuracy(embedding.predict(), travellers()));
    fmt::print("seed {}, epoch {}: loss {:.2f} -> {:.2f}, right {:.1f} %, posterior {:.1f} %\n",
               seed, epoch, outcome.before.total, outcome.after.total, 100 * all.back(),
               100 * known);
  }
  return all;
}

TEST(FlexibilityLearning, FindsTheTypesOfTheDefaultTravellers) {
  for (uint64_t seed = 0; seed < 4; ++seed) EXPECT_GE(accuracies(seed, {}).back(), 0.9);
}

TEST(FlexibilityLearning, FindsThemAllByTheMarginalLikelihood) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(accuracies(seed, {.likelihood = Likelihood::kMarginal}).front(), 1);
  }
}

}  // namespace
}  // namespace flotilla::dvrp::test
