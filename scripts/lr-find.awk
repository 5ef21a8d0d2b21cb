# SPDX-License-Identifier: BSD-3-Clause
# For lr-find: reads the steps of a run whose rate rises (-v metrics=FILE); writes to the folder
# -v tmp=DIR `said`, what they say, and `points` and `arrows`, what gnuplot draws.

# The mean of the losses around a step, of which one an eighth of a decade away counts for a third.
function smooth(    i, keep, sum, weights) {
    keep = exp(-8 * log(rate[n] / rate[1]) / log(10) / (n - 1))
    for (i = 1; i <= n; i++) { # those up to this step
        sum = sum * keep + loss[i]
        weights = weights * keep + 1
        mean[i] = sum
        weight[i] = weights
    }
    sum = weights = 0
    for (i = n; i >= 1; i--) { # and those behind it
        mean[i] = (mean[i] + sum * keep) / (weight[i] + weights * keep)
        sum = sum * keep + loss[i]
        weights = weights * keep + 1
    }
    # The sum of squared weights over the square of their sum, of a sum without ends.
    noise = 2 * noise_of_steps() * sqrt((1 + keep ^ 2) / (1 - keep ^ 2)) * (1 - keep) / (1 + keep)
}

# Of losses that fall in a straight line the second difference is noise alone.
function noise_of_steps(    i, sum, counted) {
    for (i = int(n / 4) + 2; i < n && rate[i] < rate[n] / 100; i++) {
        sum += (loss[i + 1] - 2 * loss[i] + loss[i - 1]) ^ 2 / 6
        counted++
    }
    return counted ? sqrt(sum / counted) : 0
}

BEGIN {
    while (next_event(metrics) != "")
        if (value("event") == "step" && value("lm_loss") != "") {
            rate[++n] = value("learning_rate") + 0
            loss[n] = value("lm_loss") + 0
        }
    if (n < 40) {
        print "mds: error: lr-find: " n " steps have a loss, too few to tell; they are in " metrics > "/dev/stderr"
        exit 1
    }
    smooth()
    best = 1
    for (i = 2; i <= n; i++)
        if (mean[i] < mean[best])
            best = i
    for (from = best; from > 1 && mean[from - 1] <= mean[best] + noise; from--)
        ;
    for (to = best; to < n && mean[to + 1] <= mean[best] + noise; to++)
        ;
    # A run whose rate decays may begin with the highest that does no harm.
    if (to == n)
        printf "no rate found: the loss did not rise up to the highest, %.1e\n", rate[n] > (tmp "/said")
    else
        printf "--lr %.1e: lowest loss %.3f at %.1e, the same within its noise (%.3f) from %.1e to %.1e\n", \
            rate[to], mean[best], rate[best], noise, rate[from], rate[to] > (tmp "/said")
    top = loss[1] + 0.2
    for (i = 1; i <= n; i++)
        if (loss[i] < top)
            print rate[i], loss[i], mean[i] > (tmp "/points")
    printf "set yrange [:%g]\n", top > (tmp "/arrows")
    if (to < n)
        printf "set arrow from %g, graph 0 to %g, graph 1 nohead linecolor rgb \"#d55e00\"\n", rate[to], rate[to] > (tmp "/arrows")
}
